"""All groups of this broker by id, and how their records in `__consumer_offsets` are read back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tidelog.kernel.errors import BrokerError, GroupIdNotFound, NotCoordinator
from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorState, Steps

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.groups.group import Group
    from tidelog.plugins.coordinator.offsets.store import OffsetStore
    from tidelog.plugins.coordinator.runtime import LoadedBatch


class GroupRegistry:
    """Groups of every protocol; an id has one group.

    Attributes:
        find: returns the group of an id, or None (a method of the dictionary: heartbeats call it)
        closed: whether the broker stops; no group is created or changed from then on
    """

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._by_partition: dict[int, dict[str, Group]] = {}
        self.find: Callable[[str], Group | None] = self._groups.get
        self.closed = False

    def get(self, group_id: str) -> Group:
        """Return the group of that id.

        Raises:
            GroupIdNotFound: there is none.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def put(self, group: Group) -> None:
        """Add a group; it replaces the one of its id, whose state is in the same partition."""
        self._groups[group.group_id] = group
        self._by_partition.setdefault(group.partition, {})[group.group_id] = group

    def remove(self, group: Group, reason: BrokerError) -> None:
        """Close a group and remove it, unless another has replaced it; waiting members get `reason`."""
        group.close(reason)
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
            del self._by_partition[group.partition][group.group_id]

    def __iter__(self) -> Iterator[Group]:
        """Iterate over the groups that there are now; they may be removed meanwhile."""
        return iter(tuple(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def of_partition(self, partition: int) -> list[Group]:
        """Return the groups whose state is in that partition of the log."""
        return [*self._by_partition.get(partition, {}).values()]

    def check_open(self) -> None:
        """Check that the broker does not stop.

        Raises:
            NotCoordinator: it does.
        """
        if self.closed:
            raise NotCoordinator("the broker stops")

    def settle(self, partition: int) -> Generator[None, None, None]:
        """Resume the groups of a partition that was read back, one a step; see `LogReader`."""
        for group in self.of_partition(partition):
            if self.closed:
                return
            if self._groups.get(group.group_id) is group:
                group.resume()
            yield

    def forget_partition(self, partition: int) -> None:
        """Remove the groups of a partition of the log that is gone, or that another broker leads now."""
        for group in self.of_partition(partition):
            self.remove(group, NotCoordinator("this broker no longer has the log of this group"))

    def close(self) -> None:
        """Answer every request that waits, and refuse further ones: the broker stops."""
        self.closed = True
        for group in self._groups.values():
            group.close(NotCoordinator("the broker stops"))


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
