"""Varints at many positions at once, as arrays with an element for each.

Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.varint import MAX_VARINT_BYTES

Column: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def _short_varints() -> tuple[Column, Column]:
    """Return for every two bytes, the first one lowest, the varint that they begin with, and its size.

    The size is 0 for a varint of more than two bytes.
    """
    pair = np.arange(2**16)
    has_second = pair >> 7 & 1
    folded = (pair & 0x7F) + has_second * (pair >> 1 & 0x3F80)
    size = np.where(pair & 0x8080 == 0x8080, 0, 1 + has_second)
    return (folded >> 1) ^ -(folded & 1), size


_VALUES, _SIZES = _short_varints()
RECORD_SIZES: Final = np.where((_SIZES > 0) & (_VALUES >= 0), _SIZES + _VALUES, 0)
"""For every two bytes, the first one lowest: how many bytes the record has that begins with them.

With its length field; 0 if that has more than two bytes or is negative.
"""


class Varints:
    """The zigzag varints in some bytes."""

    __slots__ = ("_bytes", "_pairs")

    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        # Each byte with the one after it: no varint of a record is its last byte.
        size = max(len(data) - 1, 0)
        self._pairs: npt.NDArray[np.uint16] = np.ndarray((size,), "<u2", data, strides=(1,))

    def read(self, positions: Column, most_bytes: int) -> tuple[Column, Column]:
        """Return the values of the varints at `positions`, and the positions after them.

        Raises:
            CorruptBatch: one of them is longer than `most_bytes`.
            IndexError: one of them is beyond the data, or the byte after it, where not all have one byte.
        """
        first = self._bytes.take(positions)
        after: Column = positions + 1
        if first.max(initial=0) < 0x80:
            folded = first.astype(np.int64)
            return (folded >> 1) ^ -(folded & 1), after
        pairs = self._bytes.take(after).astype(np.intp) << 8 | first
        values, sizes = _VALUES.take(pairs), _SIZES.take(pairs)
        after = positions + sizes
        if not sizes.all():
            long = np.flatnonzero(sizes == 0)
            values[long], after[long] = self._read_long(positions[long], most_bytes)
        return values, after

    def record_sizes(self, positions: Column) -> Column:
        """Return how many bytes the records at `positions` have, as `RECORD_SIZES` says.

        Raises:
            IndexError: a length, or the byte after it, is beyond the data.
        """
        return RECORD_SIZES.take(self._pairs[positions])

    def after_records(self, positions: Column) -> Column:
        """Return where the records at `positions` end, as their lengths say.

        Raises:
            CorruptBatch: a length is longer than a varint, or below 0.
            IndexError: a length is beyond the data.
        """
        sizes = self.record_sizes(positions)
        if sizes.all():
            after: Column = positions + sizes
            return after
        lengths, after = self.read(positions, MAX_VARINT_BYTES)
        if lengths.min() < 0:
            raise CorruptBatch(f"a record cannot have {lengths.min()} bytes")
        return after + lengths

    def _read_long(self, positions: Column, most_bytes: int) -> tuple[Column, Column]:
        folded = np.zeros(len(positions), np.uint64)
        after = positions.copy()
        pending = np.arange(len(positions))
        for shift in range(0, 7 * most_bytes, 7):
            byte = self._bytes[after[pending]]
            folded[pending] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[pending] += 1
            pending = pending[byte >= 0x80]
            if not pending.size:
                break
        else:
            raise CorruptBatch(f"a varint of a record has more than {most_bytes} bytes")
        if most_bytes == MAX_VARINT_BYTES:
            folded &= np.uint64(0xFFFFFFFF)
        return (folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64), after
