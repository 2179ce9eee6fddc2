"""The headers of many records at once, as columns.

Few readers of blocks need them, so `RecordBlock` leaves them encoded.
Source: Kafka documentation, "Record Header".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask, Varints
from tidelog.kernel.records.varint import MAX_VARINT_BYTES, read_varint

MIN_HEADER_BYTES = 2
"""Of a header with an empty key and a null or empty value."""
_MANY_RECORDS = 32
"""From so many on, one step in all of them at once takes less time than one step in each."""


class HeaderColumns(NamedTuple):
    """The headers of the records of a block, those of the first record first.

    `counts[i]` is the number of headers of record i. For each header: the positions of its key and value in
    the block's data, and their sizes in bytes, -1 for a value that is null.
    """

    counts: Column
    key_start: Column
    key_size: Column
    value_start: Column
    value_size: Column


def header_columns(block: RecordBlock) -> HeaderColumns:
    """Decode the headers of all records of a block.

    Raises:
        CorruptBatch: they are malformed, or do not end where their record does.
    """
    try:
        return _Decoding(block).columns()
    except IndexError as error:
        raise CorruptBatch("a header reaches beyond its batch") from error


class _Decoding:
    """Progress in all records: the position of the next header of each one."""

    def __init__(self, block: RecordBlock) -> None:
        self._data = block.data
        # The count of a record without headers is its last byte, so one more has to follow.
        self._varints = Varints(self._data + b"\0")
        self._end = block.end
        after_value = block.value_start + np.maximum(block.value_size, 0)
        self._count, self._position = self._varints.read(after_value, MAX_VARINT_BYTES)
        room = (self._end - self._position) // MIN_HEADER_BYTES
        _check((self._count >= 0) & (self._count <= room))
        self._first = np.cumsum(self._count) - self._count
        # Rows: start and size of the key, start and size of the value.
        self._found = np.empty((4, int(self._count.sum())), np.int64)

    def columns(self) -> HeaderColumns:
        """Decode one header of each record that has another one, again and again."""
        number = 0
        active = np.flatnonzero(self._count > 0)
        while len(active) >= _MANY_RECORDS:
            self._decode_next(active, number)
            number += 1
            active = active[self._count[active] > number]
        for record in active.tolist():
            self._decode_rest(record, number)
        _check(self._position == self._end)
        return HeaderColumns(self._count, *self._found)

    def _decode_next(self, active: Column, number: int) -> None:
        end = self._end[active]
        key_size, key_start = self._varints.read(self._position[active], MAX_VARINT_BYTES)
        value_at = key_start + key_size
        _check((key_size >= 0) & (value_at < end))
        value_size, value_start = self._varints.read(value_at, MAX_VARINT_BYTES)
        after = value_start + np.maximum(value_size, 0)
        _check(after <= end)
        self._found[:, self._first[active] + number] = key_start, key_size, value_start, value_size
        self._position[active] = after

    def _decode_rest(self, record: int, number: int) -> None:
        position, end = int(self._position[record]), int(self._end[record])
        first, count = int(self._first[record]), int(self._count[record])
        for index in range(first + number, first + count):
            key_size, key_start = read_varint(self._data, position)
            if key_size < 0 or key_start + key_size >= end:
                raise _malformed()
            value_size, value_start = read_varint(self._data, key_start + key_size)
            position = value_start + max(value_size, 0)
            if position > end:
                raise _malformed()
            self._found[:, index] = key_start, key_size, value_start, value_size
        self._position[record] = position


def _check(holds: Mask) -> None:
    if not holds.all():
        raise _malformed()


def _malformed() -> CorruptBatch:
    return CorruptBatch("a record has malformed headers")
