"""Assigned partitions of a consumer, in the order in which they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.positions import PartitionPosition
from tidelog.plugins.client.errors import ClientClosed, NotAssigned
from tidelog.plugins.client.operations.group_offsets import GroupOffset

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


class AssignedPartitions(dict[TopicPartition, PartitionPosition]):
    """The state of each assigned partition; `is_closed` once nothing can be assigned any more."""

    is_closed = False

    def check_open(self) -> None:
        """Raise `ClientClosed` after `close`."""
        if self.is_closed:
            raise ClientClosed("this consumer was closed")

    def close(self) -> None:
        """Drop all partitions; none is added any more."""
        self.clear()
        self.is_closed = True

    def state(self, partition: TopicPartition) -> PartitionPosition:
        """Return the state of a partition.

        Raises:
            NotAssigned: it is not assigned.
            ClientClosed: the consumer is closed.
        """
        self.check_open()
        state = self.get(partition)
        if state is None:
            raise NotAssigned(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def states(self, partitions: Iterable[TopicPartition]) -> list[PartitionPosition]:
        """Return the states of partitions; raises as `state`."""
        return [self.state(each) for each in partitions]

    def is_current(self, state: PartitionPosition, version: int) -> bool:
        """Return whether a response that was requested for this version of a position is still about it."""
        return state.version == version and self.get(state.partition) is state

    def add(self, partition: TopicPartition) -> None:
        """Assign a partition; one that is assigned already keeps its position."""
        self.setdefault(partition, PartitionPosition(partition))

    def replace(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these; those that are assigned already keep their positions."""
        wanted = dict.fromkeys(TopicPartition(*each) for each in partitions)
        for partition in [each for each in self if each not in wanted]:
            del self[partition]
        for partition in wanted:
            self.add(partition)

    def has_data(self) -> bool:
        """Return whether something can be returned, or raised."""
        return any(state.has_data for state in self.values())

    def next_with_data(self, among: Container[TopicPartition] | None = None) -> PartitionPosition | None:
        """Return a partition of which something can be returned or raised, each in turn; None without one.

        With `among` it is one of those.
        """
        ready = (each for each in self.values() if each.has_data)
        state = next((each for each in ready if among is None or each.partition in among), None)
        if state is not None:
            # Behind the others, which come first the next time.
            self[state.partition] = self.pop(state.partition)
        return state

    def offsets(self, *, uncommitted_only: bool) -> dict[TopicPartition, GroupOffset]:
        """Return the known positions as offsets to commit: all, or those that are not committed."""
        return {
            partition: GroupOffset(state.position, "", state.epoch)
            for partition, state in self.items()
            if state.position is not None and not (uncommitted_only and state.position == state.committed)
        }
