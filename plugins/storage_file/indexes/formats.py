"""The index formats that plugins offer, and which of them a topic uses."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.kernel.errors import ConfigError, InvalidTopicConfig
from tidelog.kernel.seams.indexes import IndexFormat, all_suffixes
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.indexes.sparse_index import SPARSE

if TYPE_CHECKING:
    from tidelog.kernel.config import Config, TopicConfig

_log = logging.getLogger(__name__)


class IndexFormats:
    """The formats by name; `sparse` is always there."""

    def __init__(self, offered: Mapping[str, IndexFormat]) -> None:
        self._by_name: dict[str, IndexFormat] = {SPARSE.name: SPARSE, **offered}

    def check(self, config: Config) -> None:
        """Check the default format of the broker.

        Raises:
            ConfigError: no plugin offers it.
        """
        name = config[keys.LOG_INDEX_FORMAT]
        if name not in self._by_name:
            raise ConfigError(f"{keys.LOG_INDEX_FORMAT} = {name!r}: {self._remedy()}")

    def check_topic(self, config: TopicConfig) -> None:
        """Check the format of a new topic.

        Raises:
            InvalidTopicConfig: no plugin offers it.
        """
        name = config[keys.INDEX_FORMAT]
        if name not in self._by_name:
            raise InvalidTopicConfig(f"{keys.INDEX_FORMAT} = {name!r}: {self._remedy()}.")

    def of(self, config: TopicConfig, label: str) -> IndexFormat:
        """Return a topic's format, or `sparse` with a warning when its plugin is missing."""
        name = config[keys.INDEX_FORMAT]
        found = self._by_name.get(name)
        if found is None:
            _log.warning(
                "%s: %s = %r: %s; %s is used instead",
                label, keys.INDEX_FORMAT, name, self._remedy(), SPARSE.name,
            )  # fmt: skip
        return found or SPARSE

    def foreign_suffixes(self, chosen: IndexFormat) -> frozenset[str]:
        """Return the suffixes of files that a partition in the `chosen` format must not have."""
        return all_suffixes(self._by_name).difference(chosen.suffixes)

    def _remedy(self) -> str:
        return f"no plugin offers such an index format; there are {', '.join(sorted(self._by_name))}"
