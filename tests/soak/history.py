"""What a writer of keyed records has sent, and what one reading of its topics may find of that."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs

from .writers.keys import keyed_record

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.define
class History:
    """The numbers of one writer, taken from its journal by one thread and used by others.

    `next_number` is where its next life begins: numbers are never used again. `begun` counts groups, `groups`
    those that were acknowledged.
    """

    writer: str
    next_number: int = 0
    begun: int = 0
    groups: int = 0
    _last: dict[bytes, int] = attrs.field(factory=dict[bytes, int])
    _committed: set[int] = attrs.field(factory=set[int])
    _aborted: set[int] = attrs.field(factory=set[int])
    _tombstones: dict[bytes, list[int]] = attrs.field(factory=dict[bytes, list[int]])
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def take(self, line: str) -> None:
        """Take a line of the journal."""
        what, first, after = line.split()
        numbers = range(int(first), int(after))
        records = [keyed_record(self.writer, number) for number in numbers]
        with self._lock:
            if what == "begun":
                self.next_number = numbers.stop
                self.begun += 1
                for number, record in zip(numbers, records, strict=True):
                    if record.value is None:
                        self._tombstones.setdefault(record.key, []).append(number)
            elif what == "committed":
                self.groups += 1
                self._committed.update(numbers)
                self._last |= {record.key: number for number, record in zip(numbers, records, strict=True)}
            else:
                self._aborted.update(numbers)

    def last_acknowledged(self) -> dict[bytes, int]:
        """Return the number that was acknowledged last of each key."""
        with self._lock:
            return {**self._last}

    def is_aborted(self, number: int) -> bool:
        """Return whether a number's transaction was aborted."""
        return number in self._aborted

    @property
    def acknowledged(self) -> int:
        """How many numbers were acknowledged."""
        return len(self._committed)

    @property
    def aborted(self) -> int:
        """How many numbers were aborted."""
        return len(self._aborted)

    def may_be_deleted(self, key: bytes, since: int) -> bool:
        """Return whether a tombstone of a key was sent, at that number or later."""
        with self._lock:
            tombstones = [*self._tombstones.get(key, ())]
        return any(number >= since and number not in self._aborted for number in tombstones)


@attrs.frozen
class Promise:
    """What was acknowledged at one moment, which readers of committed records may see only later.

    They see nothing above the first record of a transaction that is open or being completed; it is over when
    the writer has begun two more.
    """

    last: Mapping[str, Mapping[bytes, int]]
    _begun: Mapping[str, int]

    @classmethod
    def of(cls, histories: Mapping[str, History]) -> Promise:
        """Return what is acknowledged now."""
        last = {name: history.last_acknowledged() for name, history in histories.items()}
        return cls(last, {name: history.begun for name, history in histories.items()})

    def is_due(self, histories: Mapping[str, History]) -> bool:
        """Return whether a reader that starts now reads up to it."""
        return all(history.begun > self._begun[name] + 1 for name, history in histories.items())


@attrs.define
class Reading:
    """One reading of a topic: each record is checked, and at the end what was found of each key."""

    topic: str
    histories: Mapping[str, History]
    numbers: dict[str, set[int]] = attrs.field(factory=dict[str, set[int]])
    records: int = 0
    size_bytes: dict[int, int] = attrs.field(factory=dict[int, int])
    """Partition → bytes of keys, values and headers."""
    _found: dict[bytes, int] = attrs.field(factory=dict[bytes, int])
    _offsets: dict[int, int] = attrs.field(factory=dict[int, int])
    _newest: dict[tuple[int, str], int] = attrs.field(factory=dict[tuple[int, str], int])
    _oldest: dict[tuple[int, str], int] = attrs.field(factory=dict[tuple[int, str], int])

    def take(self, partition: int, offset: int, key: bytes, value: bytes | None, header: bytes) -> None:
        """Take the next record of a partition.

        Raises:
            AssertionError: offsets or numbers go backwards, or it is not what was sent.
        """
        at = f"{self.topic}-{partition} at offset {offset}"
        before = self._offsets.get(partition, -1)
        assert offset > before, f"{at}: follows offset {before}"
        self._offsets[partition] = offset
        writer, _, digits = header.decode().partition(" ")
        number = int(digits)
        sent = keyed_record(writer, number)
        assert (key, value) == (sent.key, sent.value), f"{at}: not what was sent as {header!r}"
        newest = self._newest.get((partition, writer), -1)
        assert number > newest, f"{at}: {header!r} follows {newest}"
        assert not self.histories[writer].is_aborted(number), f"{at}: {header!r} was aborted"
        self._newest[partition, writer] = number
        self._oldest.setdefault((partition, writer), number)
        self._found[key] = number
        self.numbers.setdefault(writer, set()).add(number)
        self.records += 1
        size = len(key) + len(value or b"") + len(header)
        self.size_bytes[partition] = self.size_bytes.get(partition, 0) + size

    def check_aborted(self) -> None:
        """Check again what was read while the outcome of its transaction was not known here.

        Raises:
            AssertionError: some of it was aborted.
        """
        for writer, numbers in self.numbers.items():
            aborted = [number for number in numbers if self.histories[writer].is_aborted(number)]
            assert not aborted, f"{self.topic}: {writer} {min(aborted)} was read, and aborted"

    def check(
        self,
        expected: Mapping[str, Mapping[bytes, int]],
        partitions: int,
        *,
        quiet: bool,
        trimmed: bool = False,
    ) -> None:
        """Check that each key has its last acknowledged number or a later one; writer → key → number.

        `quiet`: nothing was written or compacted meanwhile. Otherwise a reader that takes longer than
        `delete.retention.ms` may see a value and miss its tombstone. `trimmed`: the oldest records may have
        been deleted, which are those below the oldest number that is left in their partition.

        Raises:
            AssertionError: a value is lost, or a deleted one is back.
        """
        for writer, last in expected.items():
            history = self.histories[writer]
            for key, number in last.items():
                found = self._found.get(key)
                if found is not None and found >= number:
                    continue
                if history.may_be_deleted(key, number) and (found is None or not quiet):
                    continue
                partition = keyed_record(writer, number).partition(partitions)
                if trimmed and found is None and number < self._oldest.get((partition, writer), number):
                    continue
                raise AssertionError(
                    f"{self.topic}-{partition}: {key!r} has {found}, and {number} was acknowledged"
                )
