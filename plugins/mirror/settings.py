"""Settings of one mirror, and what its filters and names mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.errors import ConfigError, InvalidTopic
from tidelog.kernel.topic_names import check_topic_name
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.mirror import keys
from tidelog.plugins.mirror.client_keys import source_ensemble, source_security, target_security
from tidelog.plugins.mirror.errors import MirrorRefused

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from tidelog.kernel.config import TableConfig
    from tidelog.kernel.regexes import Regex
    from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble


@attrs.frozen
class NameFilter:
    """Names that one of `include` matches as a whole, and none of `exclude`."""

    include: Sequence[Regex]
    exclude: Sequence[Regex] = ()

    def matches(self, name: str) -> bool:
        """Return whether the name is one of them."""
        return any(each.fullmatch(name) for each in self.include) and not any(
            each.fullmatch(name) for each in self.exclude
        )


@attrs.frozen
class Renaming:
    """The name of a copy: a prefix before what a pattern makes of the name, if it matches all of it."""

    prefix: str = ""
    pattern: re.Pattern[str] | None = None
    replacement: str = ""

    def target_of(self, topic: str) -> str:
        r"""Return the name of the copy; `\1` in the replacement is the first group of the pattern.

        Raises:
            MirrorRefused: it is no name for a topic.
        """
        found = self.pattern.fullmatch(topic) if self.pattern else None
        name = self.prefix + (topic if found is None else found.expand(self.replacement))
        try:
            check_topic_name(name)
        except InvalidTopic as error:
            raise MirrorRefused(f"the copy of {topic!r} would be named {name!r}: {error}") from error
        return name


@attrs.frozen
class MirrorSettings:
    """Settings of one mirror; what each means is said by its key in `keys`."""

    name: str
    bootstrap: str
    topics: NameFilter
    renaming: Renaming = Renaming()
    keeps_partitions: bool = True
    starts_at_end: bool = False
    include_mirrored: bool = True
    replication_factor: int = -1
    follows_configs: bool = True
    not_followed: frozenset[str] = frozenset(keys.NOT_FOLLOWED)
    groups: NameFilter = NameFilter(())
    refresh_interval_s: float = 30.0
    group_interval_s: float = 10.0
    commit_interval_s: float = 1.0
    fetch_bytes: int = 4 * 1024 * 1024
    retry_backoff_s: float = 1.0
    retry_backoff_max_s: float = 60.0
    request_timeout_s: float = 30.0
    source_security: SecuritySettings = attrs.field(factory=SecuritySettings)
    target_security: SecuritySettings = attrs.field(factory=SecuritySettings)
    ensemble: ZooKeeperEnsemble | None = None
    """In which the brokers of the source are registered, instead of those in `bootstrap`."""

    @property
    def transactional_id(self) -> str:
        """The transactional id at the target, by which a later process fences an earlier one."""
        return f"tidelog-mirror.{self.name}"

    @classmethod
    def of_table(cls, table: TableConfig) -> MirrorSettings:
        """Return the settings in a table `[mirrors.NAME]`.

        Raises:
            ConfigError: addresses or values do not fit together.
        """
        pattern, replacement = table[keys.RENAME_PATTERN], table[keys.RENAME_REPLACEMENT]
        if (pattern is None) != (not replacement):
            raise ConfigError(f"[mirrors.{table.name}] needs both rename.pattern and rename.replacement.")
        try:
            ensemble = source_ensemble(table[keys.BOOTSTRAP_SERVERS], table)
        except (ValueError, ModuleNotFoundError) as error:
            raise ConfigError(f"mirrors.{table.name}.bootstrap.servers: {error}.") from None
        try:
            securities = source_security(table), target_security(table)
        except ValueError as error:
            raise ConfigError(f"mirrors.{table.name}.{error}.") from None
        return cls(
            name=table.name,
            bootstrap=table[keys.BOOTSTRAP_SERVERS],
            topics=_filter(table[keys.TOPICS], table[keys.EXCLUDE_TOPICS]),
            renaming=Renaming(table[keys.RENAME_PREFIX], pattern, replacement),
            keeps_partitions=table[keys.PARTITIONS] == keys.KEEP,
            starts_at_end=table[keys.START] == keys.LATEST,
            include_mirrored=table[keys.INCLUDE_MIRRORED],
            replication_factor=table[keys.REPLICATION_FACTOR],
            follows_configs=table[keys.FOLLOW_CONFIGS],
            not_followed=frozenset(table[keys.EXCLUDE_CONFIGS]),
            groups=_filter(table[keys.GROUPS], table[keys.EXCLUDE_GROUPS]),
            refresh_interval_s=table[keys.REFRESH_INTERVAL_MS] / 1000,
            group_interval_s=table[keys.GROUP_INTERVAL_MS] / 1000,
            commit_interval_s=table[keys.COMMIT_INTERVAL_MS] / 1000,
            fetch_bytes=table[keys.FETCH_MAX_BYTES],
            retry_backoff_s=table[keys.RETRY_BACKOFF_MS] / 1000,
            retry_backoff_max_s=table[keys.RETRY_BACKOFF_MAX_MS] / 1000,
            request_timeout_s=table[keys.REQUEST_TIMEOUT_MS] / 1000,
            source_security=securities[0],
            target_security=securities[1],
            ensemble=ensemble,
        )


def _filter(include: Sequence[str], exclude: Sequence[str]) -> NameFilter:
    return NameFilter(
        [keys.compiled_pattern(each) for each in include], [keys.compiled_pattern(each) for each in exclude]
    )
