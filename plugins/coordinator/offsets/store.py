"""Store of the committed offsets of all groups, for loading, groups, transactions and expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.offsets.table import OffsetTable
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord
from tidelog.plugins.schema.errors import CodecError


class OffsetStore:
    """A table for each partition of the log; a group's offsets are in the partition that its id hashes to."""

    def __init__(self, partition_for: Callable[[str], int], begin_simple: Callable[[str], None]) -> None:
        """Create a store without offsets.

        `partition_for` returns the partition of a group; `begin_simple` is called with each group whose
        offsets are loaded, and creates a simple one unless that id has a group.
        """
        self.partition_for = partition_for
        self._begin_simple = begin_simple
        self._tables: dict[int, OffsetTable] = {}

    def table(self, partition: int) -> OffsetTable:
        """Return the offsets in a partition of the log."""
        found = self._tables.get(partition)
        if found is None:
            found = self._tables[partition] = OffsetTable()
        return found

    def holds(self, group_id: str) -> bool:
        """Return whether the group has committed anything, pending or not; cheap."""
        return self.table(self.partition_for(group_id)).has_offsets(group_id)

    def count(self, group_id: str) -> int:
        """Return how many offsets a group has, committed and pending."""
        return self.table(self.partition_for(group_id)).count(group_id)

    def partitions(self, group_id: str) -> Iterator[PartitionKey]:
        """Iterate over the partitions that have an offset of a group now, committed or pending."""
        return self.table(self.partition_for(group_id)).partitions(group_id)

    def tombstones(self, group_id: str, partitions: Iterable[PartitionKey]) -> list[StateRecord]:
        """Return the records that remove these offsets of a group."""
        return [OffsetChange(group_id, tp, None).to_record() for tp in partitions]

    def forget(self, group_id: str, partitions: Iterable[PartitionKey]) -> None:
        """Remove these offsets of a group; the tombstones are in the log."""
        table = self.table(self.partition_for(group_id))
        for tp in partitions:
            table.remove(group_id, tp)

    def complete_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Commit or drop what is pending; the producer's marker is in that partition of the log."""
        self.table(partition).complete_transaction(producer_id, commit=commit)

    def replay(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Apply a record that is read back.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker. A value is checked in full only when
                its group is looked up.
        """
        try:
            group_id = self.table(partition).load(key, value)
        except (CodecError, UnicodeDecodeError) as error:
            raise UnreadableRecord(str(error)) from None
        if group_id is not None:
            self._begin_simple(group_id)

    def replay_transactional(
        self, partition: int, producer_id: int, record_offset: int, key: bytes, value: bytes
    ) -> None:
        """Apply an offset of a transaction that is read back; a tombstone goes to `replay`.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker.
        """
        change = OffsetChange.from_record(key, value)
        change.apply_pending(self.table(partition), producer_id, record_offset)
        self._begin_simple(change.group_id)

    def group_removed(self, partition: int, key: bytes) -> None:
        """Note that a record of that key may have removed its group: further offsets begin a simple one."""
        self.table(partition).group_removed(key)

    def loaded(self, partition: int) -> None:
        """Note that the partition was read to its end."""
        self.table(partition).end_loading()

    def forget_partition(self, partition: int) -> None:
        """Drop the offsets of a partition that was deleted."""
        self._tables.pop(partition, None)
