"""The writes of one task: blocks of rows to partitions, as record batches."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.producing import produce_batches
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.spark_sink.writer.encoding import encode_batches
from tidelog.plugins.spark_sink.writer.partitioning import key_partitions, sticky_partitions
from tidelog.plugins.spark_sink.writer.rows import (
    ANY_PARTITION,
    ANY_TIMESTAMP,
    InvalidRow,
    TopicRows,
    rows_by_topic,
)

if TYPE_CHECKING:
    from tidelog.kernel.records.columns import Column
    from tidelog.plugins.client.batches import EncodedBatch
    from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
    from tidelog.plugins.client.producers import IdempotentProducer
    from tidelog.plugins.spark_sink.writer.options import WriterOptions

# Not the generator of the process: a program may have seeded that one.
_random = random.SystemRandom()

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Rows are gathered up to so many bytes: the blocks of Spark may leave little for each of many partitions."""
REQUEST_BYTES: Final = 8 * 1024 * 1024
"""Record batches of one request, before compression; a single one may be larger."""
_ENCODED_BYTES: Final = 256 * 1024 * 1024
"""Bytes of records that are encoded together: one Arrow array has at most 2 GiB."""


@attrs.define
class Written:
    """What a task has written: the number of rows, and their bytes without what the format adds."""

    rows: int = 0
    data_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.data_bytes} bytes"

    def add(self, rows: TopicRows) -> None:
        """Count more rows."""
        self.rows += len(rows.records)
        self.data_bytes += rows.records.data_bytes


def gather(batches: Iterable[pa.RecordBatch], block_bytes: int = BLOCK_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield record batches of at least `block_bytes`, except for the last one."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= block_bytes:
            yield _joined(gathered)
            gathered, size = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    # Without any row there is no batch.
    return joined[0] if joined else batches[0]


@attrs.define
class TaskProducer:
    """Producer of one task.

    Attributes:
        written: what was written
        markable: one partition of each topic that was written to
    """

    _client: BlockingDriver
    _options: WriterOptions
    _producer: IdempotentProducer | None
    written: Written = attrs.field(factory=Written)
    markable: dict[str, TopicPartition] = attrs.field(factory=dict[str, TopicPartition], init=False)
    _counts: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _run: int = attrs.field(factory=lambda: _random.randrange(2**31), init=False)

    def write(self, batch: pa.RecordBatch, now_ms: int) -> None:
        """Write all rows.

        Raises:
            InvalidRow: a row cannot be written, as it is too large or names a partition that does not exist.
            ClientError: a topic does not exist, or its leader did not accept the records.
        """
        for rows in rows_by_topic(batch, self._options.topic):
            self.written.add(rows)
            self._write_topic(rows, now_ms)

    def _write_topic(self, rows: TopicRows, now_ms: int) -> None:
        sizes = rows.records.most_sizes()
        self._check_sizes(sizes)
        partition = self._chosen(rows, sizes)
        given = rows.records.timestamp
        records = attrs.evolve(rows.records, timestamp=np.where(given == ANY_TIMESTAMP, now_ms, given))
        if len(partition) and (partition != partition[0]).any():
            order = np.argsort(partition, kind="stable")
            records, sizes, partition = records.take(order), sizes[order], partition[order]
        starts = _batch_starts(sizes, partition, self._options.batch_bytes)
        pending: dict[TopicPartition, list[EncodedBatch]] = {}
        for first, after, inside in _groups(starts, sizes):
            chosen = (self._options.codec, self._options.compression_level)
            encoded = encode_batches(records.slice(first, after), inside, *chosen)
            for start, each in zip(inside, encoded, strict=True):
                where = TopicPartition(rows.topic, int(partition[first + start]))
                pending.setdefault(where, []).append(each)
            self._send(pending)
        for where in pending:
            self.markable.setdefault(where.topic, where)

    def _check_sizes(self, sizes: Column) -> None:
        largest = int(sizes.max(initial=0))
        if largest > self._options.max_record_bytes:
            raise InvalidRow(
                f"a record has up to {largest} bytes, more than the option kafka.max.request.size allows: "
                f"{self._options.max_record_bytes}"
            )

    def _chosen(self, rows: TopicRows, sizes: Column) -> Column:
        """Return the partition of each row: its own, or that of its key, or one for a run of rows."""
        count = self._partition_count(rows.topic)
        chosen = rows.partition
        highest = int(chosen.max(initial=ANY_PARTITION))
        if highest >= count:
            raise InvalidRow(f"a row has partition {highest}, and topic {rows.topic!r} has {count} of them")
        is_open = chosen == ANY_PARTITION
        if not is_open.any():
            return chosen
        has_key = np.zeros(len(chosen), np.bool_)
        if not self._options.ignore_keys:
            has_key = np.asarray(rows.records.key.is_valid()).astype(np.bool_)
        is_keyed = is_open & has_key
        if is_keyed.any():
            chosen = np.where(is_keyed, key_partitions(rows.records.key, count), chosen)
        rest = np.flatnonzero(is_open & ~has_key)
        if rest.size:
            chosen = chosen.copy()
            chosen[rest] = sticky_partitions(sizes[rest], count, self._run, self._options.batch_bytes)
            self._run += 1 + int(sizes[rest].sum()) // self._options.batch_bytes
        return chosen

    def _partition_count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            found = self._client.run(metadata, [topic], create=True)
            if topic not in found.topics:
                code = found.errors[topic]
                waited = "it is not there after kafka.max.block.ms" if code.retriable else None
                raise ErrorResponse(code, f"topic {topic!r}", waited)
            count = self._counts[topic] = len(found.topics[topic].partitions)
        return count

    def _send(self, pending: dict[TopicPartition, list[EncodedBatch]]) -> None:
        """Send the first batch of each partition, then the second one, and so on."""
        for number in range(max((len(each) for each in pending.values()), default=0)):
            request: dict[TopicPartition, EncodedBatch] = {}
            size = 0
            for where, batches in pending.items():
                if number >= len(batches):
                    continue
                if request and size + len(batches[number].records) > REQUEST_BYTES:
                    self._produce(request)
                    request, size = {}, 0
                request[where] = batches[number]
                size += len(batches[number].records)
            self._produce(request)
        for batches in pending.values():
            batches.clear()

    def _produce(self, request: dict[TopicPartition, EncodedBatch]) -> None:
        or_raise(self._client.run(produce_batches, request, acks=self._options.acks, producer=self._producer))


def _batch_starts(sizes: Column, partition: Column, batch_bytes: int) -> list[int]:
    """Return the rows at which a record batch begins: another partition, or the one before is full."""
    ends = np.cumsum(sizes)
    changes = np.flatnonzero(np.diff(partition)) + 1
    starts: list[int] = []
    for first, after in zip([0, *changes.tolist()], [*changes.tolist(), len(sizes)], strict=True):
        start = first
        while start < after:
            starts.append(start)
            before = int(ends[start] - sizes[start])
            start = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, "right")))
    return starts


def _groups(starts: list[int], sizes: Column) -> Iterator[tuple[int, int, list[int]]]:
    """Yield batches to encode together: their first row, the one after them, and where each begins."""
    ends = np.cumsum(sizes)
    inside: list[int] = []
    first = 0
    for start, after in zip(starts, [*starts[1:], len(sizes)], strict=True):
        if inside and ends[after - 1] - (ends[first] - sizes[first]) > _ENCODED_BYTES:
            yield first, start, inside
            inside, first = [], start
        inside.append(start - first)
    if inside:
        yield first, len(sizes), inside
