"""Whether unpacked records are what their batch's header says, without building any of them.

The layout is drawn in `record`. Each record has to end where its fields end, the records where the bytes
end, and offset deltas have to count from 0: consumers would stumble over anything else, for as long as the
batch is kept. Source: what Apache Kafka checks of compressed batches (seed 002, "LogValidator").
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.kernel.errors import CorruptBatch, InvalidRecord
from tidelog.kernel.records.varint import read_varlong, write_varlong

RECORDS_PER_BREATH = 512
"""After so many the caller may let others go on."""
_NO_LENGTH = 0x01
"""The varint of -1."""


def check_records(
    data: bytes, count: int, *, keys_required: bool = False, breathe: Callable[[], None] | None = None
) -> None:
    """Go through `count` records; `breathe` is called now and then.

    Raises:
        InvalidRecord: the bytes are not exactly so many records with offset deltas from 0 on, or one has no
            key although it has to.
    """
    position, index = 0, 0
    try:
        while index < count:
            position = _check_some(
                data, position, index, min(count, index + RECORDS_PER_BREATH), keys_required
            )
            index += RECORDS_PER_BREATH
            if breathe is not None:
                breathe()
    except (IndexError, CorruptBatch) as error:
        raise InvalidRecord(f"the batch's records end early: {count} are counted in its header") from error
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the {count} records of the batch")


def _check_some(data: bytes, position: int, index: int, stop: int, keys_required: bool) -> int:
    """Go through records `index` to `stop`; where the next one begins.

    Varints of one and two bytes are read in place: nearly all are so short, and a call for each would cost
    more than all the rest.
    """
    encoded = _ENCODED
    while index < stop:
        byte = data[position]
        if byte < 0x80:
            length, position = byte, position + 1
        elif (second := data[position + 1]) < 0x80:
            length, position = byte & 0x7F | second << 7, position + 2
        else:
            length, position = _zigzag(data, position)
        if length & 1:
            raise InvalidRecord(f"record {index} has a negative length")
        end = position + (length >> 1)
        position += 1
        while data[position] > 0x7F:
            position += 1
        position += 1
        wanted = encoded[index] if index < _ENCODINGS else _encoding(index)
        if data.startswith(wanted, position):
            position += len(wanted)
        else:
            position = _read_offset_delta(data, position, index)
        if data[position] == _NO_LENGTH and keys_required:
            raise InvalidRecord(f"record {index} has no key, which records of a compacted topic need")
        for _ in range(2):
            byte = data[position]
            if byte < 0x80:
                position += 1 if byte & 1 else 1 + (byte >> 1)
            elif (second := data[position + 1]) < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                position = _skip_bytes(data, position)
        position = position + 1 if data[position] == 0 else _skip_headers(data, position)
        if position != end:
            raise InvalidRecord(f"the fields of record {index} do not end where the record does")
        index += 1
    return position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_varlong(data, position)
    return (value << 1) ^ (value >> 63), position


def _read_offset_delta(data: bytes, position: int, index: int) -> int:
    delta, position = read_varlong(data, position)
    if delta != index:
        raise InvalidRecord(
            f"record {index} has offset delta {delta}; they have to count from 0 without a gap"
        )
    return position


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


def _encoding(number: int) -> bytes:
    out = bytearray()
    write_varlong(out, number)
    return bytes(out)


_ENCODINGS = 1024
_ENCODED = tuple(map(_encoding, range(_ENCODINGS)))
