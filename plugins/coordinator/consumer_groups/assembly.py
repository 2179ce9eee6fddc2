"""Consumer groups put together from the configuration, and joined to the rest of the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.coordinator.consumer_groups.catalogue import BrokerTopics
from tidelog.plugins.coordinator.consumer_groups.classic_service import ClassicMembers
from tidelog.plugins.coordinator.consumer_groups.guard import ConsumerGroupGuard
from tidelog.plugins.coordinator.consumer_groups.key_types import KEY_TYPES
from tidelog.plugins.coordinator.consumer_groups.neighbours import ClassicGroups
from tidelog.plugins.coordinator.consumer_groups.registry import Registry, Surroundings
from tidelog.plugins.coordinator.consumer_groups.service import ConsumerGroups
from tidelog.plugins.coordinator.consumer_groups.settings import settings_of
from tidelog.plugins.coordinator.deadlines import Deadlines
from tidelog.plugins.coordinator.replay import GroupReplay

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext
    from tidelog.plugins.coordinator.log import StateLog


@attrs.frozen
class ConsumerGroupRooms:
    """The parts that the coordinator gives to others: to clients, to classic groups, to committed offsets."""

    service: ConsumerGroups
    members: ClassicMembers
    guard: ConsumerGroupGuard
    registry: Registry

    def join_replay(self, replay: GroupReplay) -> None:
        """Have what the log tells of consumer groups brought here."""
        replay.register(KEY_TYPES, self.registry.replay)
        replay.on_settle(self.registry.settle)
        replay.on_forget(self.registry.forget)


def consumer_groups_for(
    broker: CoordinatorContext,
    log: StateLog,
    partition_for: Callable[[str], int],
    deadlines: Deadlines,
    classic: ClassicGroups,
    *,
    classic_max_size: int,
) -> ConsumerGroupRooms:
    """The consumer groups of a broker; `classic_max_size` is how many members a classic group may have.

    Raises:
        ConfigError: the configuration of consumer groups contradicts itself.
    """
    offered = broker.partition_assignors
    settings = settings_of(broker.config, offered, classic_max_size=classic_max_size)
    topics = BrokerTopics(broker.topics, base=broker.clock())
    registry = Registry(Surroundings(log, partition_for, settings, topics, deadlines, broker.clock, classic))
    return ConsumerGroupRooms(
        ConsumerGroups(registry), ClassicMembers(registry), ConsumerGroupGuard(registry), registry
    )
