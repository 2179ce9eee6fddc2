"""The offsets that groups have committed, in memory, for one partition of the log each.

What is loaded from the log stays in its bytes until its group is looked up: most groups of a large log never
are, and loading a million offsets must take seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.pending import PendingOffset, PendingOffsets
from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES
from tidelog.plugins.schema.errors import CodecError

_log = logging.getLogger(__name__)

_LENGTH_BYTES: Final = 2
_PARTITION_BYTES: Final = 4
PLACE_BYTES: Final = _LENGTH_BYTES + _PARTITION_BYTES
KEY_HEAD_BYTES: Final = TYPE_BYTES + _LENGTH_BYTES


class GroupOffsets:
    """The committed offsets of one group.

    Those that were loaded stay in bytes, by the rest of their key, until each is looked up: a group may have
    very many.
    """

    __slots__ = ("_committed", "_unread")

    def __init__(self) -> None:
        self._unread: dict[bytes, bytes] = {}
        self._committed: dict[PartitionKey, CommittedOffset] = {}

    def get(self, tp: PartitionKey) -> CommittedOffset | None:
        """Return the offset that is committed for a partition, None without one."""
        committed = self._committed.get(tp)
        if committed is not None or not self._unread:
            return committed
        place = _place(tp)
        value = self._unread.get(place)
        if value is None:
            return None
        try:
            committed = self._committed[tp] = OffsetChange.read_value(value)
        except (CodecError, UnicodeDecodeError) as error:
            self._leave_out(place, error)
        else:
            del self._unread[place]
        return committed

    def put(self, tp: PartitionKey, committed: CommittedOffset) -> None:
        """Set the offset of a partition."""
        if self._unread:
            self._unread.pop(_place(tp), None)
        self._committed[tp] = committed

    def pop(self, tp: PartitionKey) -> None:
        """Remove the offset of a partition, if it has one."""
        if self._unread:
            self._unread.pop(_place(tp), None)
        self._committed.pop(tp, None)

    def items(self) -> Iterator[tuple[PartitionKey, CommittedOffset]]:
        """Iterate over the offsets, leaving bytes as they are, which takes less memory.

        They may change meanwhile: each is as it is when its turn comes, those that are added may be left out.
        """
        unread = tuple(self._unread)
        for tp in tuple(self._committed):
            committed = self._committed.get(tp)
            if committed is not None:
                yield tp, committed
        for key in unread:
            try:
                tp, value = _read_partition_key(key), self._unread.get(key)
                # It may have been read since.
                committed = self._committed.get(tp) if value is None else OffsetChange.read_value(value)
            except (CodecError, UnicodeDecodeError) as error:
                self._leave_out(key, error)
            else:
                if committed is not None:
                    yield tp, committed

    def partitions(self) -> Iterator[PartitionKey]:
        """Iterate over the partitions for which there is an offset at the first of them."""
        unread = tuple(self._unread)
        yield from tuple(self._committed)
        for key in unread:
            try:
                yield _read_partition_key(key)
            except UnicodeDecodeError as error:
                self._leave_out(key, error)

    def load(self, key: bytes, value: bytes | None) -> None:
        """Apply a record that is loaded, by the rest of its key; without a value it is a tombstone."""
        if value is not None:
            self._unread[key] = value
            if self._committed:
                self._committed.pop(_read_partition_key(key), None)
        elif self._unread.pop(key, None) is None or self._committed:
            self._committed.pop(_read_partition_key(key), None)

    def _leave_out(self, key: bytes, error: Exception) -> None:
        _log.warning("a committed offset is malformed and left out: %s", error)
        self._unread.pop(key, None)

    def __len__(self) -> int:
        return len(self._unread) + len(self._committed)


NO_OFFSETS: Final = GroupOffsets()
"""Those of a group that has committed nothing."""


class OffsetTable:
    """The offsets of all groups in one partition of the log, and those pending in its transactions.

    It changes by `OffsetChange`s alone.
    """

    def __init__(self) -> None:
        self.pending = PendingOffsets()
        self._groups: dict[str, GroupOffsets] = {}
        self._being_loaded: dict[bytes, GroupOffsets] = {}

    def find(self, group_id: str) -> GroupOffsets | None:
        """Return the offsets of a group, None if it has none."""
        return self._groups.get(group_id)

    def committed(self, group_id: str) -> GroupOffsets:
        """Return what a group has committed, to be read only."""
        return self._groups.get(group_id) or NO_OFFSETS

    def group_ids(self) -> Collection[str]:
        """Return the ids of all groups with committed offsets, as of now."""
        return tuple(self._groups)

    def count(self, group_id: str) -> int:
        """Return how many offsets a group has, committed and pending."""
        return len(self.committed(group_id)) + len(self.pending.partitions(group_id))

    def partitions(self, group_id: str) -> Iterator[PartitionKey]:
        """Iterate over the partitions that have an offset of the group now, committed or pending.

        They may change meanwhile.
        """
        committed = self.committed(group_id)
        pending = self.pending.partitions(group_id)
        return chain(committed.partitions(), (tp for tp in pending if committed.get(tp) is None))

    def has_offsets(self, group_id: str) -> bool:
        """Return whether the group has any offset, committed or pending, without reading them."""
        return bool(self._groups.get(group_id)) or bool(self.pending.partitions(group_id))

    def commit(self, group_id: str, tp: PartitionKey, committed: CommittedOffset) -> None:
        """Set a committed offset; it counts instead of everything that is pending there."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupOffsets()
        group.put(tp, committed)
        if self.pending.producers:
            self.pending.supersede(group_id, tp)

    def remove(self, group_id: str, tp: PartitionKey) -> None:
        """Remove a committed offset, and what is pending there."""
        found = self._groups.get(group_id)
        if found is not None:
            found.pop(tp)
            if not found and not self._being_loaded:
                del self._groups[group_id]
        self.pending.remove(group_id, tp)

    def add_pending(
        self,
        producer_id: int,
        record_offset: int,
        group_id: str,
        tp: PartitionKey,
        committed: CommittedOffset,
    ) -> None:
        """Add an offset that counts once the producer's transaction commits."""
        self.pending.add(producer_id, group_id, tp, PendingOffset(record_offset, committed))

    def complete_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Commit or drop the offsets that are pending in the producer's transaction."""
        for group_id, tp, record_offset, committed in self.pending.end(producer_id):
            if commit and committed is not None:
                self._get(group_id).put(tp, committed)
                self.pending.supersede(group_id, tp, record_offset)

    def load(self, key: bytes, value: bytes | None) -> str | None:
        """Apply a record that is read back; return the group's id if it is the first one of that group.

        Raises:
            CodecError: the key is malformed, or the value is cut off or of a version that is not known.
        """
        try:
            end = KEY_HEAD_BYTES + (key[TYPE_BYTES] << 8 | key[TYPE_BYTES + 1])
            if len(key) != end + PLACE_BYTES + (key[end] << 8 | key[end + 1]):
                raise IndexError
        except IndexError:
            # The codec names what is wrong with it.
            OffsetChange.decode_key(key)
            raise
        if value is not None:
            OffsetChange.check_value(value)
        name = key[KEY_HEAD_BYTES:end]
        group = self._being_loaded.get(name)
        group_id = None
        if group is None:
            group_id = str(name, "utf-8")
            group = self._being_loaded[name] = self._get(group_id)
        group.load(key[end:], value)
        if self.pending.producers:
            self._load_over_pending(str(name, "utf-8"), _read_partition_key(key[end:]), removed=value is None)
        return group_id

    def group_removed(self, key: bytes) -> None:
        """Have `load` return the id of a group again; `key` is any key in which it is named."""
        end = KEY_HEAD_BYTES + (key[TYPE_BYTES] << 8 | key[TYPE_BYTES + 1])
        self._being_loaded.pop(key[KEY_HEAD_BYTES:end], None)

    def end_loading(self) -> None:
        """Drop the groups of which only tombstones were loaded; the partition was read to its end."""
        self._being_loaded.clear()
        for group_id in [group_id for group_id, offsets in self._groups.items() if not offsets]:
            del self._groups[group_id]

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def _get(self, group_id: str) -> GroupOffsets:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = GroupOffsets()
        return found

    def _load_over_pending(self, group_id: str, tp: PartitionKey, *, removed: bool) -> None:
        if removed:
            self.pending.remove(group_id, tp)
        else:
            self.pending.supersede(group_id, tp)


def _place(tp: PartitionKey) -> bytes:
    """Return the rest of the key of a partition's offset, behind the group."""
    topic, partition = tp
    name = topic.encode()
    return len(name).to_bytes(_LENGTH_BYTES) + name + partition.to_bytes(_PARTITION_BYTES, signed=True)


def _read_partition_key(key: bytes) -> PartitionKey:
    return str(key[_LENGTH_BYTES:-_PARTITION_BYTES], "utf-8"), int.from_bytes(
        key[-_PARTITION_BYTES:], "big", signed=True
    )
