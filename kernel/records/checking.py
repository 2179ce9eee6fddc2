"""Whether unpacked records are what their batch's header says, without building any of them.

The layout is drawn in `record`. Each record has to end where its fields end, the records where the bytes
end, and offset deltas have to count from 0: consumers would stumble over anything else, for as long as the
batch is kept. Source: what Apache Kafka checks of compressed batches (seed 002, "LogValidator").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.kernel.errors import CorruptBatch, InvalidRecord
from tidelog.kernel.records.varint import MAX_VARLONG_BYTES, read_varlong

RECORDS_PER_STEP = 512
"""What a step goes through at most: a quarter of a millisecond."""
_NO_LENGTH = 0x01
"""The varint of -1."""
_Reached = tuple[int, int, int]
"""Index and position of the first record not gone through, and how many bytes it takes to go on with it."""


def check_in_steps(pieces: Iterable[bytes], count: int, *, keys_required: bool = False) -> Iterator[None]:
    """Go through `count` records, which may be cut anywhere into pieces, a part of a piece at each step.

    Never more than a piece and the record that it cuts is held.

    Raises:
        InvalidRecord: the bytes are not exactly so many records with offset deltas from 0 on, or one has no
            key although it has to.
    """
    index, wanted = 0, 1
    held: list[bytes] = []
    held_bytes = 0
    for piece in pieces:
        held.append(piece)
        held_bytes += len(piece)
        if held_bytes < wanted:
            yield
            continue
        data = b"".join(held)
        position, wanted = 0, 1
        while wanted == 1 and index < count and position < len(data):
            stop = min(count, index + RECORDS_PER_STEP)
            index, position, wanted = _check_some(data, position, index, stop, keys_required)
            yield
        held_bytes = len(data) - position
        if held_bytes and index == count:
            raise InvalidRecord(f"bytes follow the {count} records of the batch")
        held = [data[position:]]
    if index < count:
        raise InvalidRecord(f"the batch's records end early: {count} are counted in its header")


def _check_some(data: bytes, position: int, index: int, stop: int, keys_required: bool) -> _Reached:
    """Go through records `index` to `stop`."""
    # Varints of one and two bytes are read in place: nearly all are so short, and a call for each would cost
    # more than all the rest.
    size, start, end, length = len(data), position, 0, 0
    try:
        while index < stop and position < size:
            start = position
            if (byte := data[position]) < 0x80:
                length, position = byte, position + 1
            elif (second := data[position + 1]) < 0x80:
                length, position = byte & 0x7F | second << 7, position + 2
            else:
                length, position = _zigzag(data, position)
            end = position + (length >> 1)
            if end > size or length & 1:
                return index, start, _wanted(index, length, end - start)
            position += 1
            while data[position] > 0x7F:
                position += 1
            if (byte := data[position + 1]) < 0x80:
                delta, position = byte, position + 2
            elif (second := data[position + 2]) < 0x80:
                delta, position = byte & 0x7F | second << 7, position + 3
            else:
                delta, position = _zigzag(data, position + 1)
            if delta != index << 1:
                raise _wrong_delta(index, delta)
            if (byte := data[position]) == _NO_LENGTH and not keys_required:
                position += 1
            elif byte & 0x81 == 0:
                position += 1 + (byte >> 1)
            else:
                position = _skip_key(data, position, index, keys_required)
            if (byte := data[position]) < 0x80:
                position += 1 if byte & 1 else 1 + (byte >> 1)
            elif (second := data[position + 1]) < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                position = _skip_bytes(data, position)
            position = position + 1 if data[position] == 0 else _skip_headers(data, position)
            if position != end:
                raise _ill_fitting(index)
            index += 1
    except (IndexError, CorruptBatch) as error:
        if not _is_cut(data, start):
            raise _ill_fitting(index) from error
        return index, start, size - start + 1
    except InvalidRecord:
        if length & 1 or (start == 0 and end == size):
            raise
        # Lengths may lead into the next record, or beyond what has come: only the record's own bytes count.
        _check_some(data[start:end], 0, index, index + 1, keys_required)
        raise
    return index, position, 1


def _wanted(index: int, length: int, size: int) -> int:
    if length & 1:
        raise InvalidRecord(f"record {index} has a negative length")
    return size


def _ill_fitting(index: int) -> InvalidRecord:
    return InvalidRecord(f"the fields of record {index} do not end where the record does")


def _wrong_delta(index: int, zigzag: int) -> InvalidRecord:
    delta = (zigzag >> 1) ^ -(zigzag & 1)
    return InvalidRecord(f"record {index} has offset delta {delta}; they have to count from 0 without a gap")


def _is_cut(data: bytes, start: int) -> bool:
    """Whether the record's length is not whole yet."""
    head = data[start : start + MAX_VARLONG_BYTES]
    return len(head) < MAX_VARLONG_BYTES and all(byte > 0x7F for byte in head)


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_varlong(data, position)
    return (value << 1) ^ (value >> 63), position


def _skip_key(data: bytes, position: int, index: int, required: bool) -> int:
    length, position = read_varlong(data, position)
    if length < 0 and required:
        raise InvalidRecord(f"record {index} has no key, which records of a compacted topic need")
    return position + max(length, 0)


def _skip_bytes(data: bytes, position: int) -> int:
    length, position = read_varlong(data, position)
    return position + max(length, 0)


def _skip_headers(data: bytes, position: int) -> int:
    count, position = read_varlong(data, position)
    if count < 0:
        raise InvalidRecord(f"a record cannot have {count} headers")
    for _ in range(count):
        length, position = read_varlong(data, position)
        if length < 0:
            raise InvalidRecord("a record has a header without a key")
        position = _skip_bytes(data, position + length)
    return position
