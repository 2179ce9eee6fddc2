"""One pass over records: each is checked, and where its fields are is noted, without building any of them.

    length          varint     bytes of the record after this field
    attributes      int8
    timestampDelta  varlong    to the batch's baseTimestamp
    offsetDelta     varint     to the batch's baseOffset
    keyLength       varint     -1: null; then the key
    valueLength     varint     -1: null; then the value
    headers         varint count, then for each: key length and key, value length (-1: null) and value

Varints are zigzag encoded: 0, -1, 1, -2 are stored as 0, 1, 2, 3; below, a varint that was read but not
decoded is called folded. The module is compiled where there is a C compiler, and runs as it is elsewhere: so
it knows integers of 64 bits, bytes and nothing else.

Sources: Kafka documentation, "Record"; Apache Kafka 4.4, `DefaultRecord` and `ByteUtils`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i64_le

if TYPE_CHECKING:
    from mypy_extensions import i64

FIELDS: Final = 10
"""Numbers of 64 bits that `Scanner.scan` notes of a record, little-endian: where it starts with its length,
where it ends, timestamp delta, offset delta, where its key starts, the key's size, the same two of its value,
where its first header starts, and how many it has. A size is -1 for null."""
HEADER_FIELDS: Final = 4
"""The same of a header: where its key starts, the key's size, the same two of its value."""
MOST_HEADERS: Final = 2**31 - 1
MOST_BYTES: Final = 2**31 - 1
"""Lengths and counts are of 32 bits."""
LEAST_DELTA: Final = -(2**63)
MOST_DELTA: Final = 2**63 - 1

WINDOW_BYTES: Final = 64 * 1024
NO_TIMESTAMP: Final = -1

_MORE: Final = 0x80
"""A byte of a varint that is not its last one."""
_BITS: Final = 0x7F
_VARINT_BYTES: Final = 5
_32_BITS: Final = 0xFFFFFFFF
_63_BITS_BYTES: Final = 9
"""Bytes of a varlong that 63 bits are in; the tenth has the last one."""


class Scanner:
    """A pass over the records of one batch, or of several, which may come in pieces.

    `index` is the number of records so far, `newest_delta` the largest of their timestamp deltas and of
    `absent_delta`.
    """

    def __init__(
        self,
        least_delta: i64 = LEAST_DELTA,
        most_delta: i64 = MOST_DELTA,
        absent_delta: i64 = LEAST_DELTA,
        keys_required: bool = False,
        offsets_count: bool = False,
        most_headers: i64 = MOST_HEADERS,
        most_bytes: i64 = MOST_BYTES,
    ) -> None:
        """Timestamp deltas have to be between these two, or `absent_delta`, that of a missing timestamp.

        `keys_required`: no key may be null. `offsets_count`: offset deltas have to count from 0. A record may
        have `most_headers`, and after so many of all records together a call ends. It may have `most_bytes`
        after its length.
        """
        self.index: i64 = 0
        self.newest_delta: i64 = absent_delta
        self.is_stuck = False
        """Whether the last call stopped before a record that is cut, malformed, or not as it has to be."""
        self.end: i64 = 0
        """Where that record ends, as its length says; 0: not even that is whole."""
        self._least_delta: i64 = least_delta
        self._most_delta: i64 = most_delta
        self._absent_delta: i64 = absent_delta
        self._keys_required = keys_required
        self._offsets_count = offsets_count
        self._most_headers: i64 = most_headers
        self._most_bytes: i64 = most_bytes

    def scan(self, data: bytes, position: i64, stop: i64, fields: BytesWriter | None = None) -> i64:
        """Scan whole records from `position` on, until there are `stop` in all; return where the last ends.

        What `FIELDS` names is appended to `fields`. See `is_stuck` for what else ends a call.
        """
        # Long, since it is the one loop that takes its time for each record: calls of parts would double it.
        size: i64 = len(data)
        index, newest, start, end = self.index, self.newest_delta, position, position
        least, most, absent = self._least_delta, self._most_delta, self._absent_delta
        counts, needs_key, headers_left = self._offsets_count, self._keys_required, self._most_headers
        most_bytes = self._most_bytes
        self.is_stuck = True
        try:
            while index < stop and start < size and headers_left > 0:
                # If the data ends within the length, or that is too long, no end is known.
                end = 0
                folded: i64 = data[start]
                position = start + 1
                if folded >= _MORE:
                    folded, position = _varint(data, start)
                end = position + (folded >> 1)
                # Folded, an odd number is a negative one. From here on only headers are compared with `end`
                # on the way: a field that reaches beyond it shows in `position`, and one that reaches beyond
                # the data in an IndexError.
                if end > size or folded & 1 or end - position > most_bytes:
                    break
                # Behind the attributes, of which Kafka uses no bit.
                delta: i64 = data[position + 1]
                if delta < _MORE:
                    delta, position = (delta >> 1) ^ -(delta & 1), position + 2
                else:
                    delta, position = _varlong(data, position + 1)
                if delta > newest:
                    if delta > most:
                        break
                    # It counts even if the record fails below: it is scanned again then, or its batch is
                    # refused.
                    newest = delta
                if delta < least and delta != absent:
                    break
                offset: i64 = data[position]
                position += 1
                if offset >= _MORE:
                    offset, position = _varint(data, position - 1)
                key: i64 = data[position]
                key_start = position + 1
                if key >= _MORE:
                    key, key_start = _varint(data, position)
                position = key_start if key & 1 else key_start + (key >> 1)
                value: i64 = data[position]
                value_start = position + 1
                if value >= _MORE:
                    value, value_start = _varint(data, position)
                position = value_start if value & 1 else value_start + (value >> 1)
                headers: i64 = data[position]
                position += 1
                headers_start = position
                if headers:
                    if headers >= _MORE:
                        headers, headers_start = _varint(data, position - 1)
                    position = self._after_headers(data, headers_start, headers, end)
                    headers_left -= headers >> 1
                # The offset delta is still folded: as a number that is not negative it is twice what it
                # stands for.
                if position != end or (counts and offset != index << 1) or (needs_key and key & 1):
                    break
                if fields is not None:
                    _note(fields, start, end, delta, (offset >> 1) ^ -(offset & 1))
                    _note(fields, key_start, _size(key), value_start, _size(value))
                    write_i64_le(fields, headers_start)
                    write_i64_le(fields, headers >> 1)
                # Only a record that has passed: one that is cut is scanned again from its first byte on.
                start, index = end, index + 1
            else:
                self.is_stuck = False
        except IndexError:
            pass
        self.index, self.newest_delta, self.end = index, newest, end
        return start

    def _after_headers(self, data: bytes, position: i64, folded: i64, end: i64) -> i64:
        """Return where headers end of which there are `folded`, zigzag encoded; -1 if they are malformed."""
        left = folded >> 1
        if folded & 1 or left > self._most_headers or left > end - position:
            return -1
        while left and position < end:
            size: i64 = data[position]
            position += 1
            if size >= _MORE:
                size, position = _varint(data, position - 1)
            # Of a header the key cannot be null, only the value.
            if size & 1:
                return -1
            position += size >> 1
            size = data[position]
            position += 1
            if size >= _MORE:
                size, position = _varint(data, position - 1)
            if not size & 1:
                position += size >> 1
            left -= 1
        return -1 if left else position


def scanner_of(
    base_timestamp: int,
    oldest_ms: int,
    newest_ms: int,
    keys_required: bool,
    most_bytes: i64,
    most_headers: i64,
) -> Scanner:
    """Return a scanner of records whose offset deltas count from 0, and whose timestamps are within limits.

    Those are in milliseconds, and allowed themselves, as is a missing timestamp. Where the sum of base and
    delta would wrap, the scanner stops.
    """
    least, most = max(oldest_ms - base_timestamp, LEAST_DELTA), min(newest_ms - base_timestamp, MOST_DELTA)
    if least > MOST_DELTA or most < LEAST_DELTA:
        # No delta of 64 bits leads to an allowed timestamp: these are bounds that none lies between.
        least, most = MOST_DELTA, LEAST_DELTA
    absent = as_java_adds(NO_TIMESTAMP, -base_timestamp)
    return Scanner(least, most, absent, keys_required, True, most_headers, most_bytes)


def newest_timestamp(scanner: Scanner, base_timestamp: int) -> int:
    """Return the largest timestamp that a scanner has seen, -1 at least."""
    return max(NO_TIMESTAMP, as_java_adds(base_timestamp, scanner.newest_delta))


def check_at_once(
    records: bytes | memoryview,
    count: i64,
    base_timestamp: int,
    oldest_ms: int,
    newest_ms: int,
    keys_required: bool,
    most_bytes: i64,
) -> int | None:
    """Return the largest timestamp of `count` records, -1 at least; None if something seems to be wrong.

    See `scanner_of` for what they have to be. A view is copied window by window, which a processor's cache
    holds: only bytes can be scanned quickly.
    """
    scanner = scanner_of(base_timestamp, oldest_ms, newest_ms, keys_required, most_bytes, MOST_HEADERS)
    if isinstance(records, bytes):
        position = scanner.scan(records, 0, count)
    else:
        position = _scan_windows(scanner, records, count)
    if position != len(records) or scanner.index != count:
        return None
    return newest_timestamp(scanner, base_timestamp)


def _scan_windows(scanner: Scanner, records: memoryview, count: i64) -> i64:
    """Scan records in a view; return where the last one ends that is whole and as it has to be."""
    size: i64 = len(records)
    position: i64 = 0
    window: i64 = WINDOW_BYTES
    while position < size and scanner.index < count:
        data = bytes(records[position : position + window])
        after = scanner.scan(data, 0, count)
        position += after
        window = WINDOW_BYTES
        if not after:
            # Only a record that is longer than the window is looked at again, in a window that it fits into.
            if not len(data) < scanner.end <= size - position:
                break
            window = scanner.end
    return position


def as_java_adds(one: int, other: int) -> int:
    """Return a sum in 64 bits, which wraps."""
    return (one + other - LEAST_DELTA) % 2**64 + LEAST_DELTA


def note_headers(data: bytes, position: i64, count: i64, fields: BytesWriter) -> None:
    """Append what `HEADER_FIELDS` names of `count` headers, the first of which starts at `position`.

    They have to be those of a record that a scanner has passed.
    """
    while count > 0:
        key: i64 = data[position]
        key_start = position + 1
        if key >= _MORE:
            key, key_start = _varint(data, position)
        position = key_start + (key >> 1)
        value: i64 = data[position]
        value_start = position + 1
        if value >= _MORE:
            value, value_start = _varint(data, position)
        position = value_start if value & 1 else value_start + (value >> 1)
        _note(fields, key_start, key >> 1, value_start, _size(value))
        count -= 1


def _size(folded: i64) -> i64:
    return -1 if folded & 1 else folded >> 1


def _note(fields: BytesWriter, one: i64, two: i64, three: i64, four: i64) -> None:
    write_i64_le(fields, one)
    write_i64_le(fields, two)
    write_i64_le(fields, three)
    write_i64_le(fields, four)


def _varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """Return a folded number of 32 bits, whose first byte is at `position`, and the position after it.

    Raises:
        IndexError: the bytes end in it, or it has more bytes than are allowed.
    """
    byte: i64 = data[position + 1]
    folded = data[position] & _BITS | (byte & _BITS) << 7
    if byte < _MORE:
        return folded, position + 2
    shift: i64 = 7
    position += 1
    while byte >= _MORE:
        if shift == 7 * (_VARINT_BYTES - 1):
            raise IndexError("a varint is too long")
        shift += 7
        position += 1
        byte = data[position]
        folded |= (byte & _BITS) << shift
    # The fifth byte has bits that do not fit into Java's `int`, which drops them.
    return folded & _32_BITS, position + 1


def _varlong(data: bytes, position: i64) -> tuple[i64, i64]:
    """Return a number of 64 bits, and the position after it. Raises as `_varint`."""
    folded: i64 = 0
    shift: i64 = 0
    byte: i64 = _MORE
    while byte >= _MORE and shift < 7 * _63_BITS_BYTES:
        byte = data[position]
        position += 1
        folded |= (byte & _BITS) << shift
        shift += 7
    magnitude = folded >> 1
    if byte >= _MORE:
        byte = data[position]
        position += 1
        if byte >= _MORE:
            raise IndexError("a varlong is too long")
        # The 64th bit, which `folded` has no room for as a number that is not negative. Java's `long` drops
        # the others of the tenth byte.
        magnitude |= (byte & 1) << 62
    return magnitude ^ -(folded & 1), position
