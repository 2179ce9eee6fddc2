"""Store of the committed offsets of all groups, for loading, groups, transactions and expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.plugins.coordinator.offsets.records import KEY_TYPES, OffsetChange
from tidelog.plugins.coordinator.offsets.table import OffsetTable
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorState
from tidelog.plugins.schema.errors import CodecError

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.runtime import LoadedBatch


class OffsetStore(CoordinatorState):
    """A table for each partition of the log; a group's offsets are in the partition that its id hashes to."""

    record_types = KEY_TYPES

    def __init__(self, begin_simple: Callable[[str], None]) -> None:
        """Create a store without offsets.

        `begin_simple` is called with each group whose offsets are loaded, and creates a simple one unless
        that id has a group.
        """
        self._begin_simple = begin_simple
        self._tables: dict[int, OffsetTable] = {}

    def table(self, partition: int) -> OffsetTable:
        """Return the offsets in a partition of the log."""
        found = self._tables.get(partition)
        if found is None:
            found = self._tables[partition] = OffsetTable()
        return found

    def complete_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Commit or drop what is pending; the producer's marker is in that partition of the log."""
        self.table(partition).complete_transaction(producer_id, commit=commit)

    def replay(self, partition: int, batch: LoadedBatch, index: int) -> None:
        """Apply a record that is read back; a tombstone counts at once also in a transaction, as in Kafka.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker. A value is checked in full only when
                its group is looked up.
        """
        key, value = batch.records[index]
        if batch.is_transactional and value is not None:
            change = OffsetChange.from_record(key, value)
            change.apply_pending(self.table(partition), batch.producer_id, batch.offset_of(index))
            self._begin_simple(change.group_id)
            return
        try:
            group_id = self.table(partition).load(key, value)
        except (CodecError, UnicodeDecodeError) as error:
            raise UnreadableRecord(str(error)) from None
        if group_id is not None:
            self._begin_simple(group_id)

    def group_removed(self, partition: int, key: bytes) -> None:
        """Note that a record of that key may have removed its group: further offsets begin a simple one."""
        self.table(partition).group_removed(key)

    def loaded(self, partition: int) -> None:
        """Note that the partition was read to its end."""
        self.table(partition).end_loading()

    def forget(self, partition: int) -> None:
        """Drop the offsets of a partition."""
        self._tables.pop(partition, None)
