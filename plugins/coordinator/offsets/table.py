"""What every group has committed, in memory.

What is read back of the log stays as it is in the log until somebody asks for the group: most groups of a
large log are not asked for, and a million offsets have to be there in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.records.offsets import (
    TYPE_BYTES,
    check_offset_value,
    read_offset_key,
    read_offset_value,
)
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError

_log = logging.getLogger(__name__)

Place: TypeAlias = tuple[str, int]
"""A topic's name and the number of a partition."""

_LENGTH_BYTES = 2
_PARTITION_BYTES = 4
PLACE_BYTES = _LENGTH_BYTES + _PARTITION_BYTES
KEY_HEAD_BYTES = TYPE_BYTES + _LENGTH_BYTES


class GroupOffsets:
    """What one group has committed; `unread`: what is still as in the log, by the rest of its key."""

    __slots__ = ("_committed", "unread")

    def __init__(self) -> None:
        self.unread: dict[bytes, bytes] = {}
        self._committed: dict[Place, CommittedOffset] = {}

    @property
    def committed(self) -> dict[Place, CommittedOffset]:
        """Place → what is committed there; to be read and changed."""
        if self.unread:
            self._committed.update(_read_all(self.unread))
            self.unread.clear()
        return self._committed

    def items(self) -> Iterator[tuple[Place, CommittedOffset]]:
        """The same to look through once: what is still as in the log stays so, which takes less memory."""
        if self._committed:
            return iter(self.committed.items())
        return _read_all(self.unread)

    def take_away(self, place: bytes) -> None:
        """Take over a tombstone of the log: the rest of its key."""
        if self.unread.pop(place, None) is None or self._committed:
            self._committed.pop(_read_place(place), None)

    def __len__(self) -> int:
        return len(self.unread) + len(self._committed)


class OffsetTable:
    """The offsets of all groups, by the partition of the log that they are in."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[str, GroupOffsets]] = {}
        self._being_loaded: dict[bytes, GroupOffsets] = {}

    def find(self, partition: int, group_id: str) -> GroupOffsets | None:
        """What a group has committed, None for nothing."""
        groups = self._groups.get(partition)
        return groups.get(group_id) if groups else None

    def get(self, partition: int, group_id: str) -> GroupOffsets:
        """What a group has committed; to commit to, if that is nothing yet."""
        groups = self._groups.setdefault(partition, {})
        found = groups.get(group_id)
        if found is None:
            found = groups[group_id] = GroupOffsets()
        return found

    def group_ids(self, partition: int) -> Collection[str]:
        """All groups that have committed something, as of now."""
        return tuple(self._groups.get(partition, ()))

    def groups(self, partition: int) -> Iterator[tuple[str, GroupOffsets]]:
        """The same with what they have committed."""
        return iter(tuple(self._groups.get(partition, {}).items()))

    def drop_if_empty(self, partition: int, group_id: str) -> None:
        """Forget a group that has nothing committed any more."""
        groups = self._groups.get(partition)
        if groups and group_id in groups and not groups[group_id]:
            del groups[group_id]

    def load(self, partition: int, key: bytes, value: bytes | None) -> str | None:
        """Take over a record of the log; the group's id when it is the first of that group.

        Raises:
            CodecError: the key is malformed, or the value of a version that is not known or cut off.
        """
        try:
            end = KEY_HEAD_BYTES + (key[TYPE_BYTES] << 8 | key[TYPE_BYTES + 1])
            if len(key) != end + PLACE_BYTES + (key[end] << 8 | key[end + 1]):
                raise IndexError
        except IndexError:
            # The reference codec knows what is wrong with it.
            read_offset_key(key)
            raise
        if value is not None:
            check_offset_value(value)
        name = key[KEY_HEAD_BYTES:end]
        group = self._being_loaded.get(name)
        group_id = None
        if group is None:
            group_id = str(name, "utf-8")
            group = self._being_loaded[name] = self.get(partition, group_id)
        if value is None:
            group.take_away(key[end:])
        else:
            group.unread[key[end:]] = value
        return group_id

    def end_loading(self, partition: int) -> None:
        """The partition was read to its end: what only tombstones were left of goes."""
        self._being_loaded.clear()
        for group_id, offsets in self.groups(partition):
            if not len(offsets):
                del self._groups[partition][group_id]

    def forget(self, partition: int) -> None:
        """The partition is gone."""
        self._being_loaded.clear()
        self._groups.pop(partition, None)

    def __len__(self) -> int:
        return sum(len(offsets) for groups in self._groups.values() for offsets in groups.values())


def _read_all(unread: Mapping[bytes, bytes]) -> Iterator[tuple[Place, CommittedOffset]]:
    for place, value in unread.items():
        try:
            yield _read_place(place), read_offset_value(value)
        except (CodecError, UnicodeDecodeError) as error:
            _log.warning("a committed offset is malformed and left aside: %s", error)


def _read_place(place: bytes) -> Place:
    return str(place[_LENGTH_BYTES:-_PARTITION_BYTES], "utf-8"), int.from_bytes(
        place[-_PARTITION_BYTES:], "big", signed=True
    )
