"""The state that the records of a partition leave: the newest of each key, and open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.plugins.coordinator.log.batches import LoadedBatch

NEVER: Final = -1
"""The timestamp of a key without records."""


class Entry(NamedTuple):
    """The newest record of a key; `timestamp_ms` is that of its batch, a value of None is a tombstone."""

    timestamp_ms: int
    offset: int
    value: bytes | None


class PendingEntry(NamedTuple):
    """A record of an open transaction, written with the producer's epoch."""

    timestamp_ms: int
    offset: int
    value: bytes
    producer_epoch: int


class LogImage:
    """The state after batches were applied in order.

    Of two records of one key the later one in the log wins, whenever its transaction ends; what is not
    transactional counts at once, and a tombstone removes what is pending as well.
    """

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.pending: dict[int, dict[bytes, PendingEntry]] = {}

    def apply(self, batch: LoadedBatch) -> None:
        """Apply the next batch."""
        if batch.marker is not None:
            self._end(batch.producer_id, commit=batch.marker.commit)
            return
        for index, (key, value) in enumerate(batch.records):
            offset = batch.offset_of(index)
            if batch.is_transactional and value is not None:
                pending = PendingEntry(batch.timestamp_ms, offset, value, batch.producer_epoch)
                self.pending.setdefault(batch.producer_id, {})[key] = pending
            else:
                self._supersede(key, offset)
                self._put(key, Entry(batch.timestamp_ms, offset, value))

    def live(self) -> Iterator[tuple[bytes, Entry, bytes]]:
        """Iterate over the keys that have a value, in the order of their records: key, entry, value."""
        for key, entry in self.entries.items():
            if entry.value is not None:
                yield key, entry, entry.value

    def newest_ms(self, key: bytes) -> int:
        """Return the timestamp of the newest record of a key that counts, `NEVER` without one."""
        entry = self.entries.get(key)
        return NEVER if entry is None else entry.timestamp_ms

    @property
    def newest_of_all_ms(self) -> int:
        """The timestamp of the newest record, `NEVER` without any."""
        newest_ms = max((entry.timestamp_ms for entry in self.entries.values()), default=NEVER)
        for held in self.pending.values():
            newest_ms = max(newest_ms, *(entry.timestamp_ms for entry in held.values()))
        return newest_ms

    @property
    def has_state(self) -> bool:
        """Return whether any key has a value or may get one."""
        return bool(self.pending) or any(entry.value is not None for entry in self.entries.values())

    def _put(self, key: bytes, entry: Entry) -> None:
        self.entries.pop(key, None)
        self.entries[key] = entry

    def _supersede(self, key: bytes, offset: int) -> None:
        """Drop what is pending before a record at `offset` that counts."""
        for producer_id, held in tuple(self.pending.items()):
            if key in held and held[key].offset < offset:
                del held[key]
                if not held:
                    del self.pending[producer_id]

    def _end(self, producer_id: int, *, commit: bool) -> None:
        for key, pending in self.pending.pop(producer_id, {}).items():
            known = self.entries.get(key)
            if commit and (known is None or known.offset < pending.offset):
                self._put(key, Entry(pending.timestamp_ms, pending.offset, pending.value))
                self._supersede(key, pending.offset)
