"""Arrow columns as record batches, without a step in Python for each record.

The varints of all records are computed as arrays; Arrow joins them with keys, values and headers.
Source: Kafka documentation, "Record Batch" and "Record".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from tidelog.kernel.records.compression import compress
from tidelog.plugins.client.batches import EncodedBatch

if TYPE_CHECKING:
    from tidelog.kernel.records.columns import Column, Mask

MOST_RECORD_OVERHEAD: Final = 1 + 5 + 10 + 5 + 5 + 5 + 5
"""Attributes and six varints: length, both deltas, sizes of key and value, count of headers."""
MOST_HEADER_OVERHEAD: Final = 10
"""Two varints: the sizes of a header's key and value."""

Bytes = npt.NDArray[np.uint8]

_compute: Any = pyarrow.compute
"""Its functions are made when it is imported, so that type checkers do not find them."""


@attrs.frozen
class RecordColumns:
    """Records as columns of equal length.

    Attributes:
        key: binary, may have nulls
        value: binary, may have nulls
        headers: list of struct of key (string or binary, no nulls) and value (binary); None without any
        timestamp: milliseconds since the epoch
    """

    key: pa.BinaryArray
    value: pa.BinaryArray
    headers: pa.ListArray | None
    timestamp: Column

    def __len__(self) -> int:
        return len(self.timestamp)

    def take(self, rows: Column) -> RecordColumns:
        """Return some of the rows, in this order."""
        indices = pa.array(rows)
        headers = None if self.headers is None else self.headers.take(indices)
        return RecordColumns(self.key.take(indices), self.value.take(indices), headers, self.timestamp[rows])

    def slice(self, first: int, after: int) -> RecordColumns:
        """Return the rows from `first` up to `after`."""
        count = after - first
        headers = None if self.headers is None else self.headers.slice(first, count)
        return RecordColumns(
            self.key.slice(first, count),
            self.value.slice(first, count),
            headers,
            self.timestamp[first:after],
        )

    @property
    def data_bytes(self) -> int:
        """Return the bytes of all keys and values."""
        return int(_sizes(self.key).sum() + _sizes(self.value).sum())

    def most_sizes(self) -> Column:
        """Return how many bytes each record has at most, its varints included."""
        sizes = _sizes(self.key) + _sizes(self.value) + MOST_RECORD_OVERHEAD
        if self.headers is not None:
            key, value = header_columns(self.headers)
            per_header = _sizes(key) + _sizes(value) + MOST_HEADER_OVERHEAD
            ends = np.cumsum(header_counts(self.headers))
            total = np.concatenate(([0], np.cumsum(per_header)))
            sizes += np.diff(total[np.concatenate(([0], ends))])
        return sizes


def encode_batches(
    records: RecordColumns, starts: Sequence[int], codec: int, level: int | None = None
) -> Iterator[EncodedBatch]:
    """Yield record batches; `starts` are the rows at which each begins, the first one 0.

    `level` is that of the codec, None for its default.

    All batches together have to be smaller than 2 GiB before compression.
    """
    bounds = np.array([*starts, len(records)])
    counts = np.diff(bounds)
    first_row = np.repeat(bounds[:-1], counts)
    base = records.timestamp[first_row]
    encoded = _encoded(records, records.timestamp - base, np.arange(len(records)) - first_row)
    ends = np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1)
    data = memoryview(encoded.buffers()[2])
    newest = np.maximum.reduceat(records.timestamp, bounds[:-1])
    for index, count in enumerate(counts.tolist()):
        payload = data[int(ends[bounds[index]]) : int(ends[bounds[index + 1]])]
        content = compress(codec, payload, level) if codec else payload
        timestamp = int(records.timestamp[bounds[index]])
        yield EncodedBatch(content, count, timestamp, int(newest[index]), codec)


def _encoded(records: RecordColumns, timestamp_delta: Column, offset_delta: Column) -> pa.BinaryArray:
    """Return each record's bytes, one after the other."""
    value_size = _VarintColumn.of(_sizes_or_null(records.value))
    headers, headers_sizes = _encoded_headers(records)
    inner = [
        _VarintColumn.of(timestamp_delta),
        _VarintColumn.of(offset_delta),
        _VarintColumn.of(_sizes_or_null(records.key)),
    ]
    lengths = 1 + sum(column.sizes for column in inner) + _sizes(records.key)
    lengths = lengths + value_size.sizes + _sizes(records.value) + headers_sizes
    head = _joined([_VarintColumn.of(lengths), _VarintColumn.zero(len(records)), *inner])
    # The last column is what Arrow joins the others with.
    pieces: list[Any] = [head, records.key, _joined([value_size]), records.value, headers, b""]
    joined: pa.BinaryArray = _compute.binary_join_element_wise(
        *pieces, null_handling="replace", null_replacement=b""
    )
    return joined


def _encoded_headers(records: RecordColumns) -> tuple[Any, Column | int]:
    """Return the count and the headers of each record, and their sizes."""
    if records.headers is None:
        return b"\0", 1
    key, value = header_columns(records.headers)
    key_sizes = _joined([_VarintColumn.of(_sizes(key))])
    value_sizes = _joined([_VarintColumn.of(_sizes_or_null(value))])
    # The last column is what Arrow joins the others with.
    joined = _compute.binary_join_element_wise(
        key_sizes, key, value_sizes, value, b"", null_handling="replace", null_replacement=b""
    )
    counts = header_counts(records.headers)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    ends = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1)[bounds]
    of_record = pa.Array.from_buffers(
        pa.binary(), len(records), [None, pa.py_buffer(np.ascontiguousarray(ends)), joined.buffers()[2]]
    )
    count = _VarintColumn.of(counts)
    whole = _compute.binary_join_element_wise(_joined([count]), of_record, b"")
    return whole, count.sizes + np.diff(ends).astype(np.int64)


def header_columns(headers: pa.ListArray) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Return the keys and the values of all headers, those of one record after those of the one before."""
    each = headers.flatten()
    return each.field(0).cast(pa.binary()), each.field(1).cast(pa.binary())


@attrs.frozen
class _VarintColumn:
    """Zigzag varints, a row for each, with the bytes that belong to it marked in `mask`."""

    content: Bytes
    mask: Mask
    sizes: Column

    @classmethod
    def of(cls, values: Column) -> _VarintColumn:
        folded = (values << 1 ^ values >> 63).astype(np.uint64)
        width = max(1, -(-int(folded.max(initial=0)).bit_length() // 7))
        content = np.empty((len(values), width), np.uint8)
        mask = np.empty((len(values), width), np.bool_)
        rest = folded
        for place in range(width):
            mask[:, place] = rest > 0 if place else True
            following = rest >> np.uint64(7)
            content[:, place] = rest & np.uint64(0x7F) | (following > 0).astype(np.uint64) << np.uint64(7)
            rest = following
        return cls(content, mask, mask.sum(axis=1))

    @classmethod
    def zero(cls, count: int) -> _VarintColumn:
        """Return a column of zeros; the attributes of a record are such a byte."""
        shape = (count, 1)
        return cls(np.zeros(shape, np.uint8), np.ones(shape, np.bool_), np.ones(count, np.int64))


def _joined(columns: Sequence[_VarintColumn]) -> pa.BinaryArray:
    """Return the varints of each row, one after the other, as binary values."""
    count = len(columns[0].sizes)
    content = np.hstack([column.content for column in columns])
    mask = np.hstack([column.mask for column in columns])
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(sum(column.sizes for column in columns), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(content[mask])]
    joined: pa.BinaryArray = pa.Array.from_buffers(pa.binary(), count, buffers)
    return joined


def _sizes(array: pa.BinaryArray) -> Column:
    return _sizes_or_null(array, 0)


def _sizes_or_null(array: pa.BinaryArray, of_null: int = -1) -> Column:
    """Return the bytes of each value, -1 for null."""
    sizes: Column = np.asarray(_compute.fill_null(_compute.binary_length(array), of_null)).astype(np.int64)
    return sizes


def header_counts(headers: pa.ListArray) -> Column:
    """Return how many headers each record has."""
    counts: Column = np.asarray(_compute.fill_null(_compute.list_value_length(headers), 0)).astype(np.int64)
    return counts
