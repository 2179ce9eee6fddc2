"""The writers as Spark creates them, without Spark: which columns they take, and what they refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from tests.tables import for_each
from tidelog.plugins.client.errors import BrokerUnreachable
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.writer import writers
from tidelog.plugins.spark_sink.writer.producing import Written
from tidelog.plugins.spark_sink.writer.transactions import PreparedTask, StreamTask
from tidelog.plugins.spark_sink.writer.writers import (
    InvalidColumns,
    TaskPrepared,
    batch_writer,
    check_columns,
    stream_writer,
)

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}


def struct(**columns: str) -> StructType:
    """A schema, by names and types of columns."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


@for_each(
    ("columns", "message"),
    [
        ({"key": "string"}, "there is no column value among key"),
        ({"value": "int"}, "the column value is int; it must be string or binary"),
        ({"value": "string", "key": "int"}, "the column key is int; it must be string or binary"),
        ({"value": "string", "partition": "string"}, "the column partition is string; it must be int"),
        ({"value": "string", "topic": "binary"}, "the column topic is binary; it must be string"),
        ({"value": "string", "headers": "string"}, "the column headers is string; it must be array<struct<"),
        ({"value": "string", "timestamp": "string"}, "timestamp is string; it must be timestamp or"),
    ],
)
def test_check_columns_names_the_column_and_its_types(columns: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidColumns, match=message):
        check_columns(struct(**columns), "orders")


def test_check_columns_needs_a_topic_from_the_option_or_a_column() -> None:
    with pytest.raises(InvalidColumns, match="there is no column topic: set the option topic"):
        check_columns(struct(value="binary"), None)
    every = {"value": "binary", "key": "string", "topic": "string", "partition": "int", "headers": "headers"}
    check_columns(struct(**every, timestamp="double", other="int"), None)


@pytest.mark.parametrize("writer", [batch_writer, stream_writer])
def test_writers_cannot_overwrite_and_can_be_pickled(writer: Any) -> None:
    with pytest.raises(InvalidOption, match="cannot be overwritten"):
        writer(OPTIONS, struct(value="binary"), overwrite=True)
    pickle.loads(pickle.dumps(writer(OPTIONS, struct(value="binary"), overwrite=False)))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The steps of the driver in commits and aborts, without a cluster; `fail` in it fails the next one."""
    made: list[str] = []

    def step(name: str) -> Callable[..., None]:
        def take(*args: object) -> None:
            if "fail" in made:
                made.remove("fail")
                raise BrokerUnreachable([])
            made.append(name)

        return take

    for name in ("end_left_open", "commit_tasks", "abort_tasks"):
        monkeypatch.setattr(writers, name, step(name))
    yield made
    stream_writer(OPTIONS, struct(value="binary"), overwrite=False).abort([], 0)


def test_commit_ends_what_is_left_open_unless_this_process_committed_the_micro_batch_before(
    calls: list[str],
) -> None:
    def commit(batch: int, query: str = "q") -> list[str]:
        calls[:] = [each for each in calls if each == "fail"]
        # Spark makes a writer for each commit.
        writer = stream_writer(OPTIONS, struct(value="binary"), overwrite=False)
        writer.commit([TaskPrepared(PreparedTask(StreamTask(query, batch, 0), Written()))], batch)
        return calls

    both = ["end_left_open", "commit_tasks"]
    assert commit(5) == both
    assert commit(6) == ["commit_tasks"]
    assert commit(0, "other") == both
    assert commit(7) == ["commit_tasks"]
    assert commit(7) == both, "it is repeated"
    stream_writer(OPTIONS, struct(value="binary"), overwrite=False).abort([None], 8)
    assert commit(8) == both, "it had failed before"
    calls.append("fail")
    with pytest.raises(BrokerUnreachable):
        commit(9)
    assert commit(9) == both
    assert commit(11) == both
    calls.append("fail")
    assert commit(13) == ["commit_tasks"]
    assert commit(14) == both, "what failed before is tried again"


def test_the_plugin_loads_no_pyspark_and_no_arrow() -> None:
    program = "import tidelog.plugins.spark_sink, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pyspark", "pyarrow"} & set(done.stdout.split())
