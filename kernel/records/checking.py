"""Validation of records against their batch's header, without building any of them.

`Scanner` does it wherever a record is whole. Here is what it leaves: records that lie in several pieces, and
what exactly is wrong with one. Source: the checks of Apache Kafka 4.4 (`LogValidator`), and those of its
reader (`DefaultRecord`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from tidelog.kernel.errors import InvalidRecord, InvalidTimestamp, RecordError
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.records.scanner import (
    MOST_BYTES,
    Scanner,
    as_java_adds,
    newest_timestamp,
    scanner_of,
)
from tidelog.kernel.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_folded, unfold

RECORDS_PER_STEP = 512
"""Records per step at most: half a millisecond where the scanner is not compiled."""
HEADERS_PER_STEP = 4096
"""The same for headers of records, together; a record with more is read field by field."""
_READ_PER_STEP = 256
"""Headers that are read field by field in a step."""
MAX_RECORD_ERRORS = 1000
"""Records of a batch that are reported at most: a small compressed batch may hold millions."""
MIN_TIMESTAMP = -(2**63)
MAX_TIMESTAMP = 2**63 - 1
SPLICED_BYTES = 16 * 1024
"""A shorter part of a record is joined with the next piece; a longer one is read field by field."""
_UNBOUNDED = 2**63
_ATTRIBUTES_BYTES = 1
NO_KEY = "there is no key, which records of a compacted topic need"


class RecordRules(NamedTuple):
    """Rules for the records of a batch; limits of timestamps in milliseconds, both inclusive.

    A record without a timestamp (-1) is always within the limits. `most_bytes` limits a record without its
    length.
    """

    base_timestamp: int = 0
    oldest_ms: int = MIN_TIMESTAMP
    newest_ms: int = MAX_TIMESTAMP
    keys_required: bool = False
    most_bytes: int = MOST_BYTES

    def scanner(self) -> Scanner:
        """Return a scanner of records that fulfil the rules."""
        return scanner_of(*self, HEADERS_PER_STEP)


def check_in_steps(pieces: Iterable[bytes], count: int, rules: RecordRules) -> Generator[None, None, int]:
    """Check `count` records in pieces, whose bounds need not be those of records, a part of a piece per step.

    No more than a piece is held. A step is bounded by work: many records, many headers of one record and many
    pieces all take many steps; few records in a piece take one. Returns the largest timestamp of the records,
    -1 at least.

    Raises:
        InvalidRecord: the bytes are not exactly `count` records with offset deltas from 0, or a required key
            is missing.
        InvalidTimestamp: timestamps are beyond the limits. Both name the invalid records.
    """
    check = _Check(iter(pieces), count, rules)
    scanner = check.scanner
    for piece in check.pieces:
        check.data, check.position = piece, 0
        while check.position < len(check.data):
            if scanner.index == count or check.stops:
                return check.newest_timestamp(bytes_follow=True)
            check.position = scanner.scan(
                check.data, check.position, min(count, scanner.index + RECORDS_PER_STEP)
            )
            if scanner.is_stuck or scanner.index < count:
                yield
            if scanner.is_stuck:
                yield from check.check_one()
        if not piece:
            yield
    return check.newest_timestamp()


class _Unfit(Exception):
    """The fields of a record take more bytes than it has, or fewer."""


class _Fields:
    """Fields of records that may lie in several pieces; reading them yields for each new piece."""

    pieces: Iterator[bytes]
    data = b""
    position = 0
    left = _UNBOUNDED
    """Bytes of the record that were not read yet."""

    def more(self) -> Generator[None, None, bool]:
        """Append the next piece to what was not read; return False without one."""
        for piece in self.pieces:
            yield
            if piece:
                self.data, self.position = self.data[self.position :] + piece, 0
                return True
        return False

    def varint(self, most_bytes: int = MAX_VARINT_BYTES) -> Generator[None, None, int]:
        """Read a varint of 32 bits, or of 64 if it may have that many bytes."""
        encoded = bytearray()
        while not encoded or encoded[-1] > 0x7F:
            if len(encoded) == most_bytes or not self.left:
                raise _Unfit
            if self.position == len(self.data) and not (yield from self.more()):
                raise _ends_early()
            encoded.append(self.data[self.position])
            self.position += 1
            self.left -= 1
        return unfold(read_folded(encoded, 0, most_bytes)[0])

    def skip(self, size: int) -> Generator[None]:
        """Skip so many bytes, none if `size` is negative."""
        size = max(size, 0)
        self.left -= size
        if self.left < 0:
            raise _Unfit
        while size > (there := len(self.data) - self.position):
            size -= there
            self.position += there
            if not (yield from self.more()):
                raise _ends_early()
        self.position += size


class _Check(_Fields):
    """One pass over the records of a batch."""

    stops = False
    """Whether so many records are invalid that no more are reported."""
    _newest = NO_TIMESTAMP
    _errors: Sequence[RecordError] = ()
    _error: type[InvalidRecord | InvalidTimestamp] = InvalidRecord

    def __init__(self, pieces: Iterator[bytes], count: int, rules: RecordRules) -> None:
        self.pieces = pieces
        self.scanner = rules.scanner()
        self._count = count
        self._rules = rules

    @property
    def _index(self) -> int:
        return self.scanner.index

    def newest_timestamp(self, *, bytes_follow: bool = False) -> int:
        """Return the result of the pass, or raise the errors that were found; see `check_in_steps`."""
        if self.scanner.index < self._count and not self.stops:
            raise InvalidRecord(f"the batch's records end early: {self._count} are counted in its header")
        if bytes_follow and not self.stops:
            raise InvalidRecord(f"bytes follow the {self._count} records of the batch")
        if self._errors:
            raise self._refusal()
        return max(self._newest, newest_timestamp(self.scanner, self._rules.base_timestamp))

    def check_one(self) -> Generator[None]:
        """Check the next record field by field, wherever it is split, and find what is invalid."""
        is_cut = not 0 < self.scanner.end <= len(self.data)
        if is_cut and len(self.data) - self.position < SPLICED_BYTES and (yield from self.more()):
            return
        self.left = _UNBOUNDED
        try:
            self.left = yield from self.varint()
            if self.left < 0:
                raise InvalidRecord(f"record {self._index} has a negative length")
            if self.left > self._rules.most_bytes:
                raise InvalidRecord(
                    f"record {self._index} has {self.left} bytes, more than max.decompressed.message.bytes="
                    f"{self._rules.most_bytes}; send smaller records or raise the topic's limit"
                )
            yield from self._check_fields()
        except _Unfit:
            raise InvalidRecord(
                f"the fields of record {self._index} do not end where the record does"
            ) from None
        self.scanner.index += 1

    def _check_fields(self) -> Generator[None]:
        yield from self.skip(_ATTRIBUTES_BYTES)
        timestamp_delta = yield from self.varint(MAX_VARLONG_BYTES)
        offset_delta = yield from self.varint()
        key_bytes = yield from self.varint()
        yield from self.skip(key_bytes)
        yield from self.skip((yield from self.varint()))
        headers = yield from self.varint()
        if headers < 0:
            raise InvalidRecord(f"record {self._index} cannot have {headers} headers")
        yield from self._check_headers(headers)
        if self.left:
            raise _Unfit
        if offset_delta != self._index:
            raise InvalidRecord(
                f"record {self._index} has offset delta {offset_delta}; they count from 0 without a gap"
            )
        self._note_content(key_bytes, timestamp_delta)

    def _check_headers(self, count: int) -> Generator[None]:
        # Each header has a byte at least: a count that cannot be must not begin a long loop.
        if count > self.left:
            raise _Unfit
        for index in range(count):
            key_bytes = yield from self.varint()
            if key_bytes < 0:
                raise InvalidRecord("a record has a header without a key")
            yield from self.skip(key_bytes)
            yield from self.skip((yield from self.varint()))
            if index % _READ_PER_STEP == 0:
                yield

    def _note_content(self, key_bytes: int, delta: int) -> None:
        rules = self._rules
        timestamp = as_java_adds(rules.base_timestamp, delta)
        if key_bytes < 0 and rules.keys_required:
            self._note_error(NO_KEY)
        elif timestamp != NO_TIMESTAMP and not rules.oldest_ms <= timestamp <= rules.newest_ms:
            self._error = InvalidTimestamp
            self._note_error(timestamp_error(timestamp, rules))
        else:
            self._newest = max(self._newest, timestamp)

    def _note_error(self, message: str) -> None:
        """Record the error of a record that can be read: all such records of a batch are reported."""
        self._errors = [*self._errors, RecordError(self._index, message)]
        self.stops = len(self._errors) == MAX_RECORD_ERRORS

    def _refusal(self) -> InvalidRecord | InvalidTimestamp:
        return refusal(self._error, self._errors)


def timestamp_error(timestamp: int, rules: RecordRules) -> str:
    """Return what is wrong with a timestamp beyond the limits."""
    return (
        f"timestamp {timestamp} is not between {rules.oldest_ms} and {rules.newest_ms}, as "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms ask for"
    )


def refusal(
    kind: type[InvalidRecord | InvalidTimestamp], errors: Sequence[RecordError]
) -> InvalidRecord | InvalidTimestamp:
    """Return the error of a batch with such records, at least one."""
    first, number = errors[0], len(errors)
    more = f", and {number - 1} more records are at fault" if number > 1 else ""
    return kind(f"record {first.batch_index}: {first.message}{more}", errors)


def _ends_early() -> InvalidRecord:
    return InvalidRecord("the batch's records end in the middle of one")
