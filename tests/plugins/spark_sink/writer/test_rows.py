"""Rows of Spark as columns of records: what each column becomes, without a broker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.plugins.spark_sink.writer.written import TYPES, rows
from tests.tables import for_each
from tidelog.plugins.spark_sink.writer.rows import InvalidRow, TopicRows, rows_by_topic

MOMENT = datetime(2026, 1, 31, 12, 30, 0, 250_999, tzinfo=UTC)
MOMENT_MS = 1_769_862_600_250
HEADERS = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]


def of_one_topic(batch: pa.RecordBatch) -> TopicRows:
    """The rows of a batch for topic t."""
    (found,) = rows_by_topic(batch, "t")
    return found


def table(**columns: pa.Array) -> pa.RecordBatch:
    """A batch with columns of other types than the usual ones."""
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_columns_that_are_missing_leave_the_choice_to_the_writer() -> None:
    found = of_one_topic(rows(value=[b"a", None]))
    assert found.records.key.to_pylist() == [None, None]
    assert found.records.value.to_pylist() == [b"a", None]
    assert found.records.headers is None
    assert found.records.timestamp.tolist() == [-1, -1]
    assert found.partition.tolist() == [-1, -1]


def test_columns_are_taken_with_their_nulls() -> None:
    batch = table(
        value=pa.array(["ä", None], pa.string()),
        key=pa.array([None, "k"], pa.string()),
        partition=pa.array([0, None], pa.int32()),
        timestamp=pa.array([None, MOMENT], TYPES["timestamp"]),
        headers=pa.array([None, HEADERS], TYPES["headers"]),
        other=pa.array([1, 2]),
    )
    found = of_one_topic(batch)
    assert found.records.value.to_pylist() == ["ä".encode(), None]
    assert found.records.key.to_pylist() == [None, b"k"]
    assert found.partition.tolist() == [0, -1]
    assert found.records.timestamp.tolist() == [-1, MOMENT_MS]
    assert found.records.headers is not None
    assert found.records.headers.to_pylist() == [None, HEADERS]


@for_each(
    ("given", "kind", "expected"),
    [
        ([MOMENT, None], pa.timestamp("us", tz="UTC"), [MOMENT_MS, -1]),
        ([MOMENT.replace(tzinfo=None)], pa.timestamp("us"), [MOMENT_MS]),
        ([MOMENT.replace(tzinfo=None)], pa.timestamp("ns"), [MOMENT_MS]),
        ([MOMENT_MS / 1000, None, 0.0, 0.0015], pa.float64(), [MOMENT_MS, -1, 0, 1]),
        ([datetime(1970, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"), [0]),
        ([None, None], pa.timestamp("us", tz="UTC"), [-1, -1]),
    ],
)
def test_timestamps_are_milliseconds_since_the_epoch(
    given: list[Any], kind: pa.DataType, expected: list[int]
) -> None:
    batch = table(value=pa.nulls(len(given), pa.binary()), timestamp=pa.array(given, kind))
    assert of_one_topic(batch).records.timestamp.tolist() == expected


@for_each(
    ("columns", "message"),
    [
        ({"partition": pa.array([0, -1], pa.int32())}, "a row has partition -1: a partition is at least 0"),
        ({"timestamp": pa.array([0.0, -0.001])}, "a row has a timestamp of -1 ms: records have none before"),
        (
            {"headers": pa.array([[{"key": None, "value": b"1"}], []], TYPES["headers"])},
            "a header of a row has no key",
        ),
        ({"headers": pa.array([[], [None]], TYPES["headers"])}, "a header of a row has no key"),
    ],
)
def test_what_no_record_can_have_is_refused(columns: dict[str, pa.Array], message: str) -> None:
    with pytest.raises(InvalidRow, match=message):
        of_one_topic(table(value=pa.nulls(2, pa.binary()), **columns))


def test_rows_without_any_header_have_no_column_of_them() -> None:
    assert of_one_topic(rows(value=[b"a", b"b"], headers=[[], None])).records.headers is None


def test_rows_of_a_batch_are_those_of_each_topic_in_their_order() -> None:
    batch = rows(
        value=[b"a", b"b", b"c", b"d"],
        topic=["x", "y", "x", "y"],
        partition=[0, 1, None, 2],
        headers=[[{"key": "h", "value": b"1"}], [], [], []],
    )
    found = [
        (each.topic, each.records.value.to_pylist(), each.partition.tolist())
        for each in rows_by_topic(batch, None)
    ]
    assert found == [("x", [b"a", b"c"], [0, -1]), ("y", [b"b", b"d"], [1, 2])]
    (whole,) = rows_by_topic(batch, "z")
    assert (whole.topic, len(whole.records)) == ("z", 4)
    with pytest.raises(InvalidRow, match="its column topic is null, and the option topic is not set"):
        list(rows_by_topic(rows(value=[b"a", b"b"], topic=["x", None]), None))


def test_a_batch_without_rows_has_none_for_any_topic() -> None:
    for topic in ("t", None):
        assert not list(rows_by_topic(rows(value=[]), topic))
