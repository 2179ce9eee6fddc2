"""Replay of the records of groups in `__consumer_offsets`: each is applied by its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorState, Steps

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.groups.registry import GroupRegistry
    from tidelog.plugins.coordinator.offsets.store import OffsetStore
    from tidelog.plugins.coordinator.runtime import LoadedBatch

ReplayRecord: TypeAlias = Callable[[int, bytes, bytes | None], Steps]
"""Applies one record of a group: the number of its partition, its key and its value, None for a tombstone.

Yields after each small piece, as a group may be large; raises UnreadableRecord.
"""


class GroupsOfLog(CoordinatorState):
    """The groups of the registry as they are read back.

    Their records count at once also in a transaction, as in Kafka.
    """

    def __init__(
        self, registry: GroupRegistry, offsets: OffsetStore, replays: Mapping[int, ReplayRecord]
    ) -> None:
        """`replays` are by the types of keys what applies the records of each protocol."""
        self.record_types = replays.keys()
        self._registry = registry
        self._offsets = offsets
        self._replays = replays

    def replay(self, partition: int, batch: LoadedBatch, index: int) -> Steps:
        """Apply a record of a group, in steps."""
        key, value = batch.records[index]
        yield from self._replays[int.from_bytes(key[:TYPE_BYTES])](partition, key, value)
        if value is None:
            # The group may be gone: offsets behind this record create another.
            self._offsets.group_removed(partition, key)

    def settle(self, partition: int) -> Steps:
        """Resume the groups of a partition that was read to its end, one a step."""
        return self._registry.settle(partition)

    def forget(self, partition: int) -> None:
        """Remove the groups of the partition."""
        self._registry.forget_partition(partition)
