"""Arrow tables of record batches. pyarrow and numpy are imported with this module alone.

What a scanner has noted of the records becomes one array of numbers, a column for each record. Offsets and
timestamps are computed of its rows. Keys and values are views of the batches' bytes first, which Arrow
copies together: so there is no object of any record, and no step of Python for one without headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from librt.strings import BytesWriter

from tidelog.kernel.records.scanner import FIELDS
from tidelog.plugins.client.consumer.consumer_record import headers_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.kernel.records.columns import Column, Mask
    from tidelog.plugins.client.consumer.record_batch import RecordBatch

_arrow: Any = pa
_HEADER: Final = _arrow.struct([("name", _arrow.string()), ("value", _arrow.binary())])
SCHEMA: Final = _arrow.schema(
    [
        ("topic", _arrow.dictionary(_arrow.int32(), _arrow.string())),
        ("partition", _arrow.int32()),
        ("offset", _arrow.int64()),
        ("timestamp", _arrow.timestamp("ms", "UTC")),
        ("key", _arrow.binary()),
        ("value", _arrow.binary()),
        ("headers", _arrow.list_(_HEADER)),
    ]
)
"""Columns of the tables; a timestamp of -1, which is none, is that of a millisecond before the epoch."""
_CHUNK_BYTES: Final = 1024**3
"""Of the batches whose records are one chunk of a table: Arrow counts the bytes of a column with 31 bits."""
_NEEDED: Final = 2
"""So many of the `FIELDS` of a scanner are of no use here: where records start and end."""
_TIMESTAMP, _OFFSET, _KEY, _VALUE, _HEADERS = 0, 1, 2, 4, 6
"""Where among the others the numbers are."""
_NOTED_BYTES: Final = 128 * 1024
"""What fits into the cache of a processor's core beside the records."""
_INLINE: Final = 12
"""Most bytes that are in a view itself, and not where it points to (Arrow's columnar format)."""
_SIZE, _POSITION = 0, 3
"""Numbers of 32 bits in a view."""


def table_of(batches: Sequence[RecordBatch]) -> Any:
    """Return the records of batches as a `pyarrow.Table` of `SCHEMA`, in the order of the batches.

    Raises:
        CorruptRecords: records cannot be decoded.
    """
    topics = list(dict.fromkeys(batch.partition.topic for batch in batches))
    chunks = [_chunk(each, contents, topics) for each, contents in _groups(batches)]
    return _arrow.Table.from_batches(chunks, SCHEMA)


def _groups(batches: Sequence[RecordBatch]) -> Iterator[tuple[Sequence[RecordBatch], list[Any]]]:
    """Yield the batches with their contents, cut where they have too many bytes for a chunk."""
    first = size = 0
    contents: list[Any] = []
    for index, batch in enumerate(batches):
        content = batch.content()
        if contents and size + len(content) > _CHUNK_BYTES:
            yield batches[first:index], contents
            first, size, contents = index, 0, []
        contents.append(content)
        size += len(content)
    if contents:
        yield batches[first:], contents


def _chunk(batches: Sequence[RecordBatch], contents: list[Any], topics: list[str]) -> Any:
    # A view of the last bytes has to have as many as one that is copied into it.
    data = b"".join([*contents, bytes(_INLINE)])
    fields = _noted(batches, contents, data)
    counts = _numbers([each.record_count for each in batches])
    deltas, last = fields[_OFFSET], _numbers([each.header.last_offset_delta for each in batches])
    # Without a sign, so that a negative one is larger than any.
    wrong: Mask = deltas.view(np.uint64) > np.repeat(last, counts).view(np.uint64)
    if wrong.any():
        of = np.repeat(np.arange(len(batches)), counts)
        raise batches[int(of[wrong.argmax()])].corrupt("the offset of a record is none of its batch")
    bases = _numbers([each.header.base_offset for each in batches])
    firsts = _numbers([each.first_offset for each in batches])
    columns = [
        np.repeat(np.array([topics.index(each.partition.topic) for each in batches], np.int32), counts),
        np.repeat(np.array([each.partition.partition for each in batches], np.int32), counts),
        np.repeat(bases, counts) + deltas,
        _timestamps(fields, batches, counts),
    ]
    if (firsts > bases).any():
        read = columns[2] >= np.repeat(firsts, counts)
        fields, columns = fields[:, read], [each[read] for each in columns]
    indexes, partitions, offsets, timestamps = map(_arrow.array, columns)
    arrays = [
        _arrow.DictionaryArray.from_arrays(indexes, _arrow.array(topics, _arrow.string())),
        partitions,
        offsets,
        timestamps.cast(SCHEMA.field("timestamp").type),
        _parts(data, fields, _KEY),
        _parts(data, fields, _VALUE),
        _headers(data, fields),
    ]
    return _arrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _noted(batches: Sequence[RecordBatch], contents: list[Any], data: bytes) -> Column:
    """Return the fields of all records, each as a row of its own."""
    # Some records at a time become columns while what is noted of them is still in the processor's cache.
    found: list[Column] = []
    noted = BytesWriter()
    start = 0
    for batch, content in zip(batches, contents, strict=True):
        batch.note(data, start, start + len(content), noted)
        start += len(content)
        if len(noted) > _NOTED_BYTES:
            found.append(_columns(noted))
            noted = BytesWriter()
    return np.concatenate([*found, _columns(noted)], axis=1)


def _columns(noted: BytesWriter) -> Column:
    return np.ascontiguousarray(np.frombuffer(noted.getvalue(), "<i8").reshape(-1, FIELDS)[:, _NEEDED:].T)


def _timestamps(fields: Column, batches: Sequence[RecordBatch], counts: Column) -> Column:
    # A sum beyond 64 bits wraps around, as in Java.
    bases = _numbers([each.header.base_timestamp for each in batches])
    created: Column = np.repeat(bases, counts) + fields[_TIMESTAMP]
    appended = _numbers([each.append_time_ms for each in batches])
    if not (appended >= 0).any():
        return created
    of_batch = np.repeat(appended, counts)
    return np.where(of_batch >= 0, of_batch, created)


def _parts(data: bytes, fields: Column, field: int) -> Any:
    """Return the keys or the values, whose starts and sizes are noted in that field and the next one."""
    positions, sizes = fields[field], fields[field + 1]
    nulls = sizes < 0
    if nulls.all():
        return _arrow.nulls(len(sizes), _arrow.binary())
    views = np.zeros((len(sizes), 4), np.int32)
    views[:, _SIZE], views[:, _POSITION] = np.maximum(sizes, 0), positions
    short = np.flatnonzero(sizes <= _INLINE)
    if len(short):
        views[short, 1:] = _inline(data, positions[short], sizes[short])
    valid = _arrow.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
    buffers = [valid, _arrow.py_buffer(views), _arrow.py_buffer(data)]
    return _arrow.Array.from_buffers(_arrow.binary_view(), len(sizes), buffers).cast(_arrow.binary())


def _inline(data: bytes, positions: Column, sizes: Column) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), _INLINE)
    # What follows a shorter one is there, too: the copy has as many bytes as the size says.
    return windows[np.where(sizes > 0, positions, 0)].view(np.int32)


def _headers(data: bytes, fields: Column) -> Any:
    counts = fields[_HEADERS + 1]
    names: list[str] = []
    values: list[bytes | None] = []
    for row in np.flatnonzero(counts):
        for name, value in headers_at(data, int(fields[_HEADERS, row]), int(counts[row])):
            names.append(name)
            values.append(value)
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    pairs = [_arrow.array(names, _arrow.string()), _arrow.array(values, _arrow.binary())]
    return _arrow.ListArray.from_arrays(
        _arrow.array(ends), _arrow.StructArray.from_arrays(pairs, fields=list(_HEADER))
    )


def _numbers(found: list[int]) -> Column:
    return np.array(found, np.int64)
