"""What all consumer groups share: their configuration, and what decisions are made with besides the group."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings, new_member_id
from tidelog.plugins.coordinator.consumer_groups import keys
from tidelog.plugins.coordinator.consumer_groups.topics import TopicCatalogue

if TYPE_CHECKING:
    from tidelog.kernel.cluster.resource_configs import ResourceConfigs
    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.seams.tasks import Tasks
    from tidelog.plugins.coordinator.classic_groups.factory import ClassicGroupFactory
    from tidelog.plugins.coordinator.groups.registry import GroupRegistry
    from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime


@attrs.frozen
class Settings:
    """Configuration of groups; durations in milliseconds. The first of the assignors is the default.

    `classic` are the settings of the classic groups that consumer groups become.
    """

    assignors: Mapping[str, PartitionAssignor]
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignment_interval_ms: int = 1_000
    assignor_offload: bool = True
    regex_refresh_interval_ms: int = 600_000
    upgrades: bool = True
    downgrades: bool = True
    classic: GroupSettings = attrs.field(factory=partial(GroupSettings, new_member_id))

    @property
    def default_assignor(self) -> str:
        """The assignor of groups whose members request none."""
        return next(iter(self.assignors))


class SettingsOfGroups:
    """The settings of each group: those of the broker, with what is configured for the group itself."""

    def __init__(self, of_broker: Settings, configs: ResourceConfigs) -> None:
        self.of_broker = of_broker
        self.configs = configs

    def use(self, config: Config) -> None:
        """Use what may be configured while the broker runs."""
        interval_ms = config[keys.ASSIGNMENT_INTERVAL_MS]
        if interval_ms != self.of_broker.assignment_interval_ms:
            self.of_broker = attrs.evolve(self.of_broker, assignment_interval_ms=interval_ms)

    def of(self, group_id: str) -> Settings:
        """Return the settings of a group, the same object until they change."""
        config = self.configs.find("group", group_id)
        return self.of_broker if config is None else config.derive(self._derived)

    def _derived(self, config: TopicConfig) -> Settings:
        return attrs.evolve(
            self.of_broker,
            session_timeout_ms=config[keys.GROUP_SESSION_TIMEOUT_MS],
            heartbeat_interval_ms=config[keys.GROUP_HEARTBEAT_INTERVAL_MS],
            assignment_interval_ms=config[keys.GROUP_ASSIGNMENT_INTERVAL_MS],
            assignor_offload=config[keys.GROUP_ASSIGNOR_OFFLOAD],
        )


@attrs.frozen
class Context:
    """Inputs of one decision; `resolved` are the topics that regular expressions match now.

    `assigning`: an assignment of the group is being computed already.
    """

    settings: Settings
    topics: TopicCatalogue
    now_ms: int
    resolved: Mapping[str, frozenset[str]] = attrs.field(factory=dict[str, frozenset[str]])
    assigning: bool = False


@attrs.frozen
class Shared:
    """Context shared by all consumer groups; `classic` creates the groups that some of them become."""

    runtime: CoordinatorRuntime
    registry: GroupRegistry
    settings: SettingsOfGroups
    topics: TopicCatalogue
    classic: ClassicGroupFactory
    tasks: Tasks

    def context(self, group_id: str, resolved: Mapping[str, frozenset[str]] | None = None) -> Context:
        """Return what a decision about a group is made with, now."""
        return Context(self.settings.of(group_id), self.topics, self.runtime.clock(), resolved or {})


def settings_of(config: Config, offered: Mapping[str, PartitionAssignor], classic: GroupSettings) -> Settings:
    """Return the settings of a broker whose plugins offer these assignors.

    Raises:
        ConfigError: keys contradict each other, or name an assignor that no plugin offers.
    """
    keys.check(config, offered)
    policy = config[keys.MIGRATION_POLICY]
    return Settings(
        assignors={name: offered[name] for name in config[keys.ASSIGNORS]},
        session_timeout_ms=config[keys.SESSION_TIMEOUT_MS],
        heartbeat_interval_ms=config[keys.HEARTBEAT_INTERVAL_MS],
        max_size=config[keys.MAX_SIZE],
        assignment_interval_ms=config[keys.ASSIGNMENT_INTERVAL_MS],
        assignor_offload=config[keys.ASSIGNOR_OFFLOAD],
        regex_refresh_interval_ms=config[keys.REGEX_REFRESH_INTERVAL_MS],
        upgrades=policy in ("bidirectional", "upgrade"),
        downgrades=policy in ("bidirectional", "downgrade"),
        classic=classic,
    )
