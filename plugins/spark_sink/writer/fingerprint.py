"""Fingerprint of the rows of a task: the same for the same rows in any order.

A replayed task may get its rows in another order, since shuffles do not keep any, so that the hashes of the
rows are added up. They do not depend on when and to which partition a row is written, unless the row says so.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import numpy.typing as npt

from tidelog.plugins.spark_sink.writer.encoding import header_columns, header_counts
from tidelog.plugins.spark_sink.writer.partitioning import binary_layout
from tidelog.plugins.spark_sink.writer.producing import Written

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.kernel.records.columns import Column
    from tidelog.plugins.spark_sink.writer.encoding import RecordColumns
    from tidelog.plugins.spark_sink.writer.rows import TopicRows

Hashes = npt.NDArray[np.uint64]

_WORD_BYTES: Final = 8
_MOST_SHORT_BYTES: Final = 256
"""Values up to this size are hashed together, a word of all of them at a time; longer ones each by itself."""
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_NULL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
"""What the hash of a null begins with: no value has so many bytes."""


@attrs.define
class Fingerprint(Written):
    """What a task has written, with the sum of the hashes of its rows, modulo 2**64."""

    digest: int = 0

    def __str__(self) -> str:
        return f"{super().__str__()} with hash {self.digest:016x}"

    def add(self, rows: TopicRows) -> None:
        """Count more rows."""
        super().add(rows)
        self.digest = (self.digest + int(row_hashes(rows).sum(dtype=np.uint64))) % 2**64


def row_hashes(rows: TopicRows) -> Hashes:
    """Return a hash of each row: of its topic and its columns, null as given."""
    topic = np.uint64(int.from_bytes(_digest(rows.topic.encode()), "little"))
    hashes = np.full(len(rows.records), topic, np.uint64)
    for column in (rows.partition, rows.records.timestamp):
        _mix(hashes, column.astype(np.uint64))
    for values in (rows.records.key, rows.records.value):
        _mix(hashes, value_hashes(values))
    return _mix(_mix(hashes, _header_hashes(rows.records)), hashes >> _SHIFT)


def value_hashes(values: pa.BinaryArray) -> Hashes:
    """Return a 64-bit hash of each value; that of a null is none of an empty value."""
    data, starts, sizes = binary_layout(values)
    hashes = sizes.astype(np.uint64)
    long = np.flatnonzero(sizes > _MOST_SHORT_BYTES)
    for row in long.tolist():
        first = int(starts[row])
        hashes[row] = int.from_bytes(_digest(data[first : first + int(sizes[row])].data), "little")
    short = np.flatnonzero((sizes > 0) & (sizes <= _MOST_SHORT_BYTES))
    hashes[short] = _short_hashes(data, starts[short], sizes[short])
    if values.null_count:
        hashes[np.asarray(values.is_null())] = _NULL
    return hashes


def _short_hashes(data: npt.NDArray[np.uint8], starts: Column, sizes: Column) -> Hashes:
    # Zeros behind the last value: its last word may be read as a whole, too.
    padded = np.concatenate([data, np.zeros(_WORD_BYTES, np.uint8)])
    words: Hashes = np.ndarray((len(data) + 1,), "<u8", padded.data, strides=(1,))
    # The longest first: those that have a further word are then the first ones.
    order = np.argsort(-sizes, kind="stable")
    position, whole = starts[order], sizes[order] // _WORD_BYTES
    # Not the sizes themselves: the first byte of a value of one byte may be a 1, too.
    hashes = sizes[order].astype(np.uint64) * _MULTIPLIER
    for number in range(int(whole[0]) if len(whole) else 0):
        count = int(np.searchsorted(-whole, -number, "left"))
        _mix(hashes[:count], words[position[:count]])
        position[:count] += _WORD_BYTES
    rest = (sizes[order] % _WORD_BYTES).astype(np.uint64)
    last = words[position] & ((np.uint64(1) << rest * np.uint64(8)) - np.uint64(1))
    found = np.empty_like(hashes)
    found[order] = _mix(hashes, last)
    return found


def _header_hashes(records: RecordColumns) -> Hashes:
    """Return a hash of the headers of each record, in their order."""
    hashes = np.zeros(len(records), np.uint64)
    if records.headers is None:
        return hashes
    keys, values = header_columns(records.headers)
    counts = header_counts(records.headers)
    ends = np.cumsum(counts)
    place = np.arange(len(keys)) - np.repeat(ends - counts, counts)
    each = _mix(_mix(value_hashes(keys), value_hashes(values)), place.astype(np.uint64))
    np.add.at(hashes, np.repeat(np.arange(len(records)), counts), each)
    return hashes


def _mix(hashes: Hashes, more: Hashes) -> Hashes:
    """Mix other numbers into hashes, in place, and return them."""
    hashes ^= more
    hashes *= _MULTIPLIER
    hashes ^= hashes >> _SHIFT
    return hashes


def _digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=8).digest()
