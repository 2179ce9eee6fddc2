"""Record batches as Arrow record batches with the columns of Spark's own Kafka source.

    key, value       binary, null if the record has none
    topic            string
    partition        int32
    offset           int64
    timestamp        microseconds since the epoch, UTC
    timestampType    int32: 0 CreateTime, 1 LogAppendTime
    headers          on demand: list of (key string, value binary), null if the record has none

Source: Spark's "Structured Streaming + Kafka Integration Guide". The types are those that Spark converts its
own types to, and it takes no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.records.batch import TIMESTAMP_TYPE_BIT
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.placed import PlacedBatches
from tidelog.plugins.client.errors import CorruptRecords
from tidelog.plugins.spark_sink.header_columns import header_columns
from tidelog.plugins.spark_sink.ranges import OffsetRange

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.records.columns import Column
    from tidelog.kernel.topic_partition import TopicPartition

FetchedBatch: TypeAlias = "tuple[BatchHeader, memoryview]"

ROWS_BYTES: Final = 1024 * 1024
"""Bytes of records in one Arrow record batch: less costs more calls, more leaves the processor's cache."""
_BLOCK_BYTES: Final = 2 * ROWS_BYTES
"""Of what is decompressed at once: batches that turn out larger than those before are not split for a few."""
_MOST_MS: Final = (2**63 - 1) // 1000
"""The latest time in milliseconds that microseconds of 64 bits can express."""

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_FIELDS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SCHEMA: Final = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS: Final = pa.schema([*_FIELDS, pa.field("headers", HEADERS_TYPE)])


def rows_of(
    batches: Iterable[FetchedBatch], wanted: OffsetRange, *, include_headers: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the records of data batches that lie in the range, about `ROWS_BYTES` of records at a time.

    No more than twice as much is held, or one batch if that is larger.

    Raises:
        CorruptRecords: records are malformed, or their codec is unknown.
    """
    for block in _blocks(batches, wanted.partition):
        inside = (block.offset >= wanted.start) & (block.offset < wanted.stop)
        chosen = block if inside.all() else block.select(inside)
        for part in _parts(chosen):
            yield _record_batch(part, wanted.partition, include_headers)


def _blocks(batches: Iterable[FetchedBatch], partition: TopicPartition) -> Iterator[RecordBlock]:
    groups = _Groups(batches)
    for group in groups:
        content = b"".join(data for _, data in group)
        *starts, _ = accumulate((len(data) for _, data in group), initial=0)
        placed = PlacedBatches.read(content, starts)
        while len(placed):
            try:
                block = RecordBlock(content, placed, _BLOCK_BYTES)
            except BrokerError as error:
                raise CorruptRecords(str(partition), str(error)) from error
            groups.note_sizes(int(block.batches.size.sum()), len(block.data))
            placed = placed[len(block.batches) :]
            yield block


class _Groups:
    """Batches that together have about `ROWS_BYTES` when they are decompressed, as the last ones had."""

    def __init__(self, batches: Iterable[FetchedBatch]) -> None:
        self._batches = batches
        self._most_stored = ROWS_BYTES

    def note_sizes(self, stored: int, unpacked: int) -> None:
        """Learn how many bytes some batches have as they are stored, and decompressed."""
        self._most_stored = ROWS_BYTES * stored // max(stored, unpacked)

    def __iter__(self) -> Iterator[Sequence[FetchedBatch]]:
        group: list[FetchedBatch] = []
        size = 0
        for batch in self._batches:
            if group and size + len(batch[1]) > self._most_stored:
                yield group
                group, size = [], 0
            group.append(batch)
            size += len(batch[1])
        if group:
            yield group


def _parts(block: RecordBlock) -> Iterator[RecordBlock]:
    """Yield the block in parts of about `ROWS_BYTES`: a single batch may have any size."""
    count = len(block)
    if count and block.end[-1] - block.start[0] <= _BLOCK_BYTES:
        yield block
        return
    first = 0
    while first < count:
        bound = np.searchsorted(block.end, block.start[first] + ROWS_BYTES, "right")
        after = max(int(bound), first + 1)
        mask = np.zeros(count, np.bool_)
        mask[first:after] = True
        yield block.select(mask)
        first = after


def _record_batch(block: RecordBlock, partition: TopicPartition, include_headers: bool) -> pa.RecordBatch:
    count = len(block)
    append_time = ((block.batches.attributes & TIMESTAMP_TYPE_BIT) != 0).astype(np.int32)
    key, value = _pairs(block.data, block.key_start, block.key_size, block.value_start, block.value_size)
    columns: list[pa.Array[Any]] = [
        key,
        value,
        pa.repeat(pa.scalar(partition.topic, pa.string()), count),
        _array(pa.int32(), np.full(count, partition.partition, np.int32)),
        _array(pa.int64(), block.offset),
        # Clamped: a record may have a time that microseconds cannot express.
        _array(SCHEMA.field("timestamp").type, np.clip(block.timestamp, -_MOST_MS, _MOST_MS) * 1000),
        _array(pa.int32(), append_time[block.batch]),
    ]
    if not include_headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    try:
        columns.append(_headers(block))
    except BrokerError as error:
        raise CorruptRecords(str(partition), f"{error}, from offset {block.offset[0]} on") from error
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS)


def _headers(block: RecordBlock) -> pa.Array[Any]:
    found = header_columns(block)
    key, value = _pairs(block.data, found.key_start, found.key_size, found.value_start, found.value_size)
    offsets = np.concatenate(([0], np.cumsum(found.counts))).astype(np.int32)
    structs = pa.StructArray.from_arrays([_text(key), value], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(
        _array(pa.int32(), offsets), structs, type=HEADERS_TYPE, mask=pa.array(found.counts == 0)
    )


def _text(encoded: pa.Array[Any]) -> pa.Array[Any]:
    """Return UTF-8 as strings; malformed bytes become replacement characters, as in Java's clients."""
    try:
        return encoded.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.as_py().decode(errors="replace") for each in encoded], pa.string())


def _pairs(
    data: bytes, first_start: Column, first_size: Column, second_start: Column, second_size: Column
) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return two columns of binary values that alternate in `data`, with something between them."""
    count = len(first_start)
    # The values and what lies between them, as one column without a copy; then every second one is taken.
    bounds = np.zeros(4 * count + 1, np.int32)
    bounds[:-1:4] = first_start
    bounds[1::4] = first_start + np.maximum(first_size, 0)
    bounds[2::4] = second_start
    bounds[3::4] = second_start + np.maximum(second_size, 0)
    bounds[-1] = bounds[-2] if count else 0
    pieces = pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return _every_fourth(pieces, 0, first_size), _every_fourth(pieces, 2, second_size)


def _every_fourth(pieces: pa.Array[Any], first: int, size: Column) -> pa.Array[Any]:
    indices = np.arange(first, len(pieces), 4, dtype=np.int32)
    is_null = size < 0
    return pieces.take(pa.array(indices, mask=is_null) if is_null.any() else pa.array(indices))


def _array(kind: pa.DataType, values: np.ndarray[Any, Any]) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
