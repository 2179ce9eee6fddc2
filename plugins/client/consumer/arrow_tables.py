"""Arrow tables of record batches. pyarrow is imported with this module alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidelog.plugins.client.consumer.consumer_record import ConsumedColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def table_of(batches: Sequence[RecordBatch]) -> Any:
    """Return the records of batches as a `pyarrow.Table` of `SCHEMA`, in the order of the batches.

    Raises:
        CorruptRecords: records cannot be decoded.
    """
    columns = ConsumedColumns()
    topics: dict[str, int] = {}
    runs: list[tuple[int, int, int]] = []
    for batch in batches:
        place = batch.partition
        count = columns.append(batch.noted(), batch.first_offset)
        runs.append((topics.setdefault(place.topic, len(topics)), place.partition, count))
    topic, partition, counts = np.array(runs, np.int32).reshape(-1, 3).T
    names = _arrow.DictionaryArray.from_arrays(
        _arrow.array(np.repeat(topic, counts)), _arrow.array(list(topics), _arrow.string())
    )
    count = columns.count
    arrays = [
        names,
        _arrow.array(np.repeat(partition, counts)),
        _fixed(columns.offsets.getvalue(), count, _arrow.int64()),
        _fixed(columns.timestamps.getvalue(), count, _arrow.timestamp("ms", "UTC")),
        _binary(columns.keys, columns.key_ends, columns.key_flags, count, columns.null_keys),
        _binary(columns.values, columns.value_ends, columns.value_flags, count, columns.null_values),
        _headers(columns),
    ]
    return _arrow.Table.from_arrays(arrays, schema=SCHEMA)


def _fixed(content: bytes, count: int, kind: Any) -> Any:
    return _arrow.Array.from_buffers(kind, count, [None, _arrow.py_buffer(content)])


def _binary(contents: Any, ends: Any, flags: Any, count: int, nulls: int) -> Any:
    valid = None
    if nulls:
        bits = np.packbits(np.frombuffer(flags.getvalue(), np.uint8), bitorder="little")
        valid = _arrow.py_buffer(bits.tobytes())
    buffers = [valid, _arrow.py_buffer(ends.getvalue()), _arrow.py_buffer(contents.getvalue())]
    return _arrow.Array.from_buffers(_arrow.binary(), count, buffers, nulls)


def _headers(columns: ConsumedColumns) -> Any:
    sizes = np.zeros(columns.count + 1, np.int32)
    pairs: list[dict[str, Any]] = []
    for index, headers in columns.headers:
        sizes[index + 1] = len(headers)
        pairs += [{"name": name, "value": content} for name, content in headers]
    ends = np.cumsum(sizes, dtype=np.int32)
    return _arrow.ListArray.from_arrays(_arrow.array(ends), _arrow.array(pairs, _HEADER))
