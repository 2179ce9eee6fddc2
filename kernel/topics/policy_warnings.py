"""Warnings about cleanup policies that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from tidelog.kernel.config import Config, keys
from tidelog.kernel.seams.events import Event, TopicConfigChanged, TopicCreated

_log = logging.getLogger(__name__)


class PolicyWarnings:
    """Logs the cleanup policies of the broker and of topics that nothing carries out."""

    def __init__(self, installed: Collection[str], *, has_log_cleaner: bool) -> None:
        """`installed` are the names of the policies that plugins offer."""
        self._carried_out = installed if has_log_cleaner else ()
        self._has_log_cleaner = has_log_cleaner

    def check_default(self, config: Config) -> None:
        """Log a broker without a log cleaner, or the policies of its default that have no effect."""
        if self._has_log_cleaner:
            self._warn_of_missing(keys.LOG_CLEANUP_POLICY.name, config[keys.LOG_CLEANUP_POLICY])
        else:
            _log.warning(
                "no installed plugin carries out cleanup policies: old records are never removed; take the "
                "plugin cleaner out of plugins.blocked, or install another log cleaner"
            )

    def on_event(self, event: Event) -> None:
        """Log the policies of a new or changed topic that have no effect."""
        if isinstance(event, TopicCreated | TopicConfigChanged):
            topic = event.topic
            if keys.CLEANUP_POLICY.name in topic.overrides:
                self._warn_of_missing(
                    f"topic {topic.name}: {keys.CLEANUP_POLICY}", topic.config[keys.CLEANUP_POLICY]
                )

    def _warn_of_missing(self, setting: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._carried_out:
                _log.warning(
                    "%s has %s, which no installed plugin carries out: it has no effect", setting, name
                )
