"""Validation of decompressed records against their batch's header, without building any of them.

The layout is drawn in `record`. Each record has to end where its fields end, the records where the bytes
end, and offset deltas have to count from 0: consumers would fail on anything else, for as long as the batch
is kept. Timestamps have to be within limits, and records need keys where they are required. Source: the
checks of Apache Kafka 4.4 for compressed batches (`LogValidator`), and those of its reader (`DefaultRecord`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from tidelog.kernel.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, RecordError
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_folded, unfold

RECORDS_PER_STEP = 512
"""Records per step at most: a quarter of a millisecond."""
HEADERS_PER_STEP = 512
"""The same for the headers of one record."""
MAX_RECORD_ERRORS = 1000
"""Records of a batch that are reported at most: a small compressed batch may hold millions."""
MAX_RECORD_BYTES = 2**31 - 1
"""The length of a record is an int32."""
MIN_TIMESTAMP = -(2**63)
MAX_TIMESTAMP = 2**63 - 1
SPLICED_BYTES = 16 * 1024
"""A shorter part of a record is joined with the next piece; a longer one is read field by field."""
FEW_HEADERS = 8
"""Headers of a record that are skipped together with it."""
_UNBOUNDED = 2**63
_ATTRIBUTES_BYTES = 1
_NO_LENGTH = 0x01
"""The varint of -1."""
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
    most_bytes: int = MAX_RECORD_BYTES

    def limit(self) -> int:
        """Return the largest zigzag encoded timestamp delta within the limits; -1 if not even 0 is."""
        base, oldest, newest = self[:3]
        if not oldest <= base <= newest:
            return -1
        ahead, behind = newest - base, base - oldest
        return 2 * (ahead if ahead < behind else behind)


def check_in_steps(pieces: Iterable[bytes], count: int, rules: RecordRules) -> Generator[None, None, int]:
    """Check `count` records in pieces, whose bounds need not be those of records, a part of a piece per step.

    No more than a piece is held. A step is bounded by work: many records, many headers of one record and many
    pieces all take many steps. Returns the largest timestamp of the records, -1 at least.

    Raises:
        InvalidRecord: the bytes are not exactly `count` records with offset deltas from 0, or a required key
            is missing.
        InvalidTimestamp: timestamps are beyond the limits. Both name the invalid records.
    """
    check = _Check(iter(pieces), count, rules)
    for piece in check.pieces:
        check.data, check.position = piece, 0
        while check.position < len(check.data):
            if check.index == count or check.stops:
                return check.newest_timestamp(bytes_follow=True)
            stuck = check.check_some()
            yield
            if stuck:
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

    # Small batches are checked in microseconds. So attributes are set when they change, and varints of one or
    # two bytes, as nearly all are, are read in place.
    index = 0
    stops = False
    """Whether so many records are invalid that no more are reported."""
    _is_cut = False
    _newest_ahead = -1
    _newest = NO_TIMESTAMP
    _errors: Sequence[RecordError] = ()
    _error: type[InvalidRecord | InvalidTimestamp] = InvalidRecord

    def __init__(self, pieces: Iterator[bytes], count: int, rules: RecordRules) -> None:
        self.pieces = pieces
        self._count = count
        self._rules = rules
        self._limit = rules.limit()
        self._longest = 2 * rules.most_bytes
        self._null_key = None if rules.keys_required else _NO_LENGTH

    def newest_timestamp(self, *, bytes_follow: bool = False) -> int:
        """Return the result of the pass, or raise the errors that were found; see `check_in_steps`."""
        if self.index < self._count and not self.stops:
            raise InvalidRecord(f"the batch's records end early: {self._count} are counted in its header")
        if bytes_follow and not self.stops:
            raise InvalidRecord(f"bytes follow the {self._count} records of the batch")
        if self._errors:
            raise self._refusal()
        if self._newest_ahead < 0:
            return self._newest
        return max(self._newest, self._rules.base_timestamp + (self._newest_ahead >> 1))

    def check_some(self) -> bool:
        """Check records of this piece; return whether the next one (split, invalid) needs `check_one`."""
        stop = min(self._count, self.index + RECORDS_PER_STEP)
        self.position, self.index, self._newest_ahead, end = self._check_in_place(stop)
        self._is_cut = end > len(self.data)
        return self.index < stop and self.position < len(self.data)

    def _check_in_place(self, stop: int) -> tuple[int, int, int, int]:
        """Return position, index and newest timestamp after what is valid, and where the next record ends."""
        data, start, index, newest = self.data, self.position, self.index, self._newest_ahead
        limit, null_key, longest = self._limit, self._null_key, self._longest
        size, position, end = len(data), start, 0
        try:
            while index < stop and position < size:
                if (length := data[position]) < 0x80:
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    length, position = length & 0x7F | second << 7, position + 2
                else:
                    length, position = read_folded(data, position)
                end = position + (length >> 1)
                if end > size or length & 1 or length > longest:
                    break
                if (folded := data[position + 1]) < 0x80:
                    position += 2
                elif (second := data[position + 2]) < 0x80:
                    folded, position = folded & 0x7F | second << 7, position + 3
                else:
                    folded, position = read_folded(data, position + 1, MAX_VARLONG_BYTES)
                if folded > newest:
                    if folded > limit or (folded & 1 and newest < 0):
                        break
                    if not folded & 1:
                        newest = folded
                if (folded := data[position]) < 0x80:
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    folded, position = folded & 0x7F | second << 7, position + 2
                else:
                    folded, position = read_folded(data, position)
                if (byte := data[position]) == null_key or byte & 0x81 == 0:
                    position += 1 + (byte >> 1)
                else:
                    position = self._after_key(data, position)
                if (byte := data[position]) < 0x80:
                    position += 1 if byte & 1 else 1 + (byte >> 1)
                elif (second := data[position + 1]) < 0x80:
                    position += 2 if byte & 1 else 2 + ((byte & 0x7F | second << 7) >> 1)
                else:
                    position = _after_bytes(data, position)
                position = position + 1 if data[position] == 0 else _after_few_headers(data, position)
                if position != end or folded != index << 1:
                    break
                start, index = end, index + 1
        except (IndexError, CorruptBatch):
            end = 0
        return start, index, newest, end

    def _after_key(self, data: bytes, position: int) -> int:
        length, position = read_folded(data, position)
        if length & 1 and self._rules.keys_required:
            raise CorruptBatch("the record has no key")
        return position if length & 1 else position + (length >> 1)

    def check_one(self) -> Generator[None]:
        """Check the next record field by field, wherever it is split, and find what is invalid."""
        if self._is_cut and len(self.data) - self.position < SPLICED_BYTES:
            self._is_cut = yield from self.more()
            if self._is_cut:
                return
        self.left = _UNBOUNDED
        try:
            self.left = yield from self.varint()
            if self.left < 0:
                raise InvalidRecord(f"record {self.index} has a negative length")
            if self.left > self._rules.most_bytes:
                raise InvalidRecord(
                    f"record {self.index} has {self.left} bytes, more than max.decompressed.message.bytes="
                    f"{self._rules.most_bytes}; send smaller records or raise the topic's limit"
                )
            yield from self._check_fields()
        except _Unfit:
            raise InvalidRecord(
                f"the fields of record {self.index} do not end where the record does"
            ) from None
        self.index += 1

    def _check_fields(self) -> Generator[None]:
        yield from self.skip(_ATTRIBUTES_BYTES)
        timestamp_delta = yield from self.varint(MAX_VARLONG_BYTES)
        offset_delta = yield from self.varint()
        key_bytes = yield from self.varint()
        yield from self.skip(key_bytes)
        yield from self.skip((yield from self.varint()))
        headers = yield from self.varint()
        if headers < 0:
            raise InvalidRecord(f"record {self.index} cannot have {headers} headers")
        yield from self._check_headers(headers)
        if self.left:
            raise _Unfit
        if offset_delta != self.index:
            raise InvalidRecord(
                f"record {self.index} has offset delta {offset_delta}; they count from 0 without a gap"
            )
        self._note_content(key_bytes, timestamp_delta)

    def _check_headers(self, count: int) -> Generator[None]:
        if count > self.left:
            raise _Unfit
        while count:
            start = self.position
            self.position, left = _skip_headers(self.data, start, min(count, HEADERS_PER_STEP))
            self.left -= self.position - start
            if self.left < 0:
                raise _Unfit
            count -= min(count, HEADERS_PER_STEP) - left
            yield
            if left:
                key_bytes = yield from self.varint()
                if key_bytes < 0:
                    raise InvalidRecord("a record has a header without a key")
                yield from self.skip(key_bytes)
                yield from self.skip((yield from self.varint()))
                count -= 1

    def _note_content(self, key_bytes: int, delta: int) -> None:
        rules = self._rules
        timestamp = (rules.base_timestamp + delta - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP  # as Java wraps
        if key_bytes < 0 and rules.keys_required:
            self._note_error(NO_KEY)
        elif timestamp != NO_TIMESTAMP and not rules.oldest_ms <= timestamp <= rules.newest_ms:
            self._error = InvalidTimestamp
            self._note_error(timestamp_error(timestamp, rules))
        else:
            self._newest = max(self._newest, timestamp)

    def _note_error(self, message: str) -> None:
        """Record the error of a record that can be read: all such records of a batch are reported."""
        self._errors = [*self._errors, RecordError(self.index, message)]
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


def _skip_headers(data: bytes, position: int, count: int) -> tuple[int, int]:
    """Skip headers with short fields; return the position of the first other one, and how many are left."""
    with suppress(IndexError):
        while count:
            if (byte := data[position]) & 0x81:
                break
            after = position + 1 + (byte >> 1)
            if (byte := data[after]) < 0x80:
                after += 1 if byte & 1 else 1 + (byte >> 1)
            elif (second := data[after + 1]) < 0x80:
                after += 2 if byte & 1 else 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                break
            if after > len(data):
                break
            position, count = after, count - 1
    return position, count


def _after_few_headers(data: bytes, position: int) -> int:
    folded = data[position]
    if folded & 1 or folded > 2 * FEW_HEADERS:
        raise CorruptBatch("many headers take steps of their own")
    position, left = _skip_headers(data, position + 1, folded >> 1)
    if left:
        raise CorruptBatch("the headers are cut or long")
    return position


def _after_bytes(data: bytes, position: int) -> int:
    folded, position = read_folded(data, position)
    return position if folded & 1 else position + (folded >> 1)


def _ends_early() -> InvalidRecord:
    return InvalidRecord("the batch's records end in the middle of one")
