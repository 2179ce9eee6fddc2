"""Warnings about cleanup policies that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.config import Config, keys

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.topics.topics import Topics

_log = logging.getLogger(__name__)


class PolicyWarnings:
    """Logs the cleanup policies of the broker and of topics that nothing carries out."""

    def __init__(
        self, topics: Topics, installed: Collection[str], has_log_cleaner: Callable[[], bool]
    ) -> None:
        """`installed` are the names of the policies that plugins offer; a log cleaner may come later."""
        self._topics = topics
        self._installed = installed
        self._has_log_cleaner = has_log_cleaner

    def check_default(self, config: Config) -> None:
        """Log a broker without a log cleaner, or the policies of its default that have no effect."""
        if self._has_log_cleaner():
            self._warn_of_missing(keys.LOG_CLEANUP_POLICY.name, config[keys.LOG_CLEANUP_POLICY])
        else:
            _log.warning(
                "no installed plugin carries out cleanup policies: old records are never removed; take the "
                "plugin cleaner out of plugins.blocked, or install another log cleaner"
            )

    async def follow(self, change: ImageChange) -> None:
        """Log the policies of new or changed topics that have no effect."""
        for name, image in change.delta.topics.items():
            if image is None or keys.CLEANUP_POLICY.name not in image.config:
                continue
            before, topic = change.before.topics.get(name), self._topics.find(name)
            is_new = before is None or before.topic_id != image.topic_id or before.config != image.config
            if is_new and topic is not None:
                self._warn_of_missing(
                    f"topic {name}: {keys.CLEANUP_POLICY}", topic.config[keys.CLEANUP_POLICY]
                )

    def _warn_of_missing(self, setting: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._installed or not self._has_log_cleaner():
                _log.warning(
                    "%s has %s, which no installed plugin carries out: it has no effect", setting, name
                )
