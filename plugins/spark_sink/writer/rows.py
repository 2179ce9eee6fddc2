"""The rows of a query as records of topics, with the columns of Spark's own Kafka sink.

    value       string or binary; null writes a record without a value
    key         string or binary, optional
    topic       string, unless the option `topic` names one for all rows
    partition   int, optional; null leaves the choice to the partitioner
    headers     array of struct of key (string) and value (binary), optional
    timestamp   timestamp, or double in seconds since the epoch, optional; null is the time of writing

Other columns are ignored.
Source: Spark's "Structured Streaming + Kafka Integration Guide" and its `KafkaWriter`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.spark_sink.writer.encoding import RecordColumns

if TYPE_CHECKING:
    from tidelog.kernel.records.columns import Column

ANY_PARTITION: Final = -1
ANY_TIMESTAMP: Final = -1
_MS_PER_S = 1000
_compute: Any = pyarrow.compute


class InvalidRow(TidelogError, ValueError):
    """A row cannot be written; the message names the column and what it may contain."""


@attrs.frozen
class TopicRows:
    """Rows for one topic; `partition` is -1 where the partitioner chooses, a timestamp where it is now."""

    topic: str
    records: RecordColumns
    partition: Column


def rows_by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[TopicRows]:
    """Yield the rows for each topic; `topic` is that of all rows, None to use the column.

    Raises:
        InvalidRow: a topic or the key of a header is null, or a partition or timestamp is negative.
    """
    if not batch.num_rows:
        return
    records = RecordColumns(
        _binary(batch, "key"), _binary(batch, "value"), _headers(batch), _timestamps(batch)
    )
    partition = _partitions(batch)
    if topic is not None:
        yield TopicRows(topic, records, partition)
        return
    names = batch.column("topic")
    if names.null_count:
        raise InvalidRow("a row has no topic: its column topic is null, and the option topic is not set")
    encoded = names.dictionary_encode()
    codes = np.asarray(encoded.indices)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        yield TopicRows(str(name), records.take(rows), partition[rows])


def _column(batch: pa.RecordBatch, name: str) -> Any:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _binary(batch: pa.RecordBatch, name: str) -> pa.BinaryArray:
    column = _column(batch, name)
    return pa.nulls(batch.num_rows, pa.binary()) if column is None else column.cast(pa.binary())


def _partitions(batch: pa.RecordBatch) -> Column:
    column = _column(batch, "partition")
    if column is None:
        return np.full(batch.num_rows, ANY_PARTITION, np.int64)
    least = _compute.min(column).as_py()
    if least is not None and least < 0:
        raise InvalidRow(f"a row has partition {least}: a partition is at least 0, or null for any")
    return np.asarray(_compute.fill_null(column, ANY_PARTITION)).astype(np.int64)


def _timestamps(batch: pa.RecordBatch) -> Column:
    column = _column(batch, "timestamp")
    if column is None:
        return np.full(batch.num_rows, ANY_TIMESTAMP, np.int64)
    if pa.types.is_floating(column.type):
        # Not `safe`, which refuses fractions of a millisecond.
        in_ms = _compute.multiply(column, float(_MS_PER_S)).cast(pa.int64(), safe=False)
    else:
        in_us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        in_ms = _compute.divide(in_us, 1000)
    least = _compute.min(in_ms).as_py()
    if least is not None and least < 0:
        raise InvalidRow(f"a row has a timestamp of {least} ms: records have none before 1970")
    return np.asarray(_compute.fill_null(in_ms, ANY_TIMESTAMP)).astype(np.int64)


def _headers(batch: pa.RecordBatch) -> pa.ListArray | None:
    column = _column(batch, "headers")
    if column is None or not len(each := column.flatten()):
        return None
    if each.null_count or each.field(0).null_count:
        raise InvalidRow("a header of a row has no key: neither headers nor their keys may be null")
    return column
