"""Offsets committed in open transactions, which count once the transaction commits (KIP-447).

Of two commits for one partition the later one in the log wins, whenever its transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.records import PartitionKey


class PendingOffset(NamedTuple):
    """An offset of a transaction (None once a later commit counts instead), and the offset of its record."""

    record_offset: int
    committed: CommittedOffset | None


class EndedOffset(NamedTuple):
    """A partition's offset of an ended transaction; `committed` is None if a later commit counts instead."""

    group_id: str
    topic_partition: PartitionKey
    record_offset: int
    committed: CommittedOffset | None


class PendingOffsets:
    """The offsets of all open transactions in one partition of the log.

    Attributes:
        producers: ids of producers whose transactions have an offset, by group and partition; empty if none
    """

    def __init__(self) -> None:
        self.producers: dict[str, dict[PartitionKey, set[int]]] = {}
        self._by_producer: dict[int, dict[tuple[str, PartitionKey], PendingOffset]] = {}

    def add(self, producer_id: int, group_id: str, tp: PartitionKey, pending: PendingOffset) -> None:
        """Add an offset to the producer's transaction; it replaces the one that it had for the partition."""
        self._by_producer.setdefault(producer_id, {})[group_id, tp] = pending
        self.producers.setdefault(group_id, {}).setdefault(tp, set()).add(producer_id)

    def supersede(self, group_id: str, tp: PartitionKey, record_offset: int | None = None) -> None:
        """Let a later commit replace what is pending before its record (None: before all)."""
        for producer_id in self.producers.get(group_id, {}).get(tp, ()):
            offsets = self._by_producer[producer_id]
            pending = offsets[group_id, tp]
            if record_offset is None or pending.record_offset < record_offset:
                offsets[group_id, tp] = pending._replace(committed=None)

    def remove(self, group_id: str, tp: PartitionKey) -> None:
        """Remove everything that is pending for a partition."""
        for producer_id in self.producers.get(group_id, {}).get(tp, set()).copy():
            del self._by_producer[producer_id][group_id, tp]
            self._release(producer_id, group_id, tp)

    def end(self, producer_id: int) -> Sequence[EndedOffset]:
        """End the producer's transaction; return what was pending of it, in no particular order."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id, tp in ended:
            self._release(producer_id, group_id, tp)
        return [EndedOffset(group_id, tp, *pending) for (group_id, tp), pending in ended.items()]

    def partitions(self, group_id: str) -> Collection[PartitionKey]:
        """Return the partitions for which a transaction may still commit an offset of the group."""
        return tuple(self.producers.get(group_id, ()))

    def _release(self, producer_id: int, group_id: str, tp: PartitionKey) -> None:
        partitions = self.producers[group_id]
        partitions[tp].discard(producer_id)
        if not partitions[tp]:
            del partitions[tp]
        if not partitions:
            del self.producers[group_id]
