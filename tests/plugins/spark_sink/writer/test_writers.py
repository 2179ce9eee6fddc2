"""The writers within Spark: a batch query, a replayed micro-batch, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from pathlib import Path
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

from tests.plugins.spark_sink.writer.written import committed, create
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.spark_sink.java import JavaNotFound, find_java
from tidelog.plugins.spark_sink.option_values import InvalidWriterOption
from tidelog.plugins.spark_sink.writer.writers import (
    InvalidColumns,
    batch_writer,
    check_columns,
    stream_writer,
)

PROGRAM = Path(__file__).parent / "spark_program.py"
TIMEOUT_S = 240
_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
REFUSALS = [
    "there is no column value among other",
    "records cannot be overwritten: use the mode append",
]


def struct(**columns: str) -> StructType:
    """A schema, by names and types of columns."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


@pytest.mark.parametrize(
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
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
    with pytest.raises(InvalidWriterOption, match="cannot be overwritten"):
        writer(options, struct(value="binary"), overwrite=True)
    pickle.loads(pickle.dumps(writer(options, struct(value="binary"), overwrite=False)))


def test_the_plugin_loads_no_pyspark_and_no_arrow() -> None:
    program = "import tidelog.plugins.spark_sink, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pyspark", "pyarrow"} & set(done.stdout.split())


@pytest.fixture
def java_home() -> str:
    try:
        return str(find_java(os.environ).home)
    except JavaNotFound as error:
        pytest.skip(str(error))


def test_writers_write_batch_queries_and_each_micro_batch_once(
    shared_tidelog: str, tmp_path: Path, java_home: str
) -> None:
    with BlockingClient(shared_tidelog) as client:
        parts = create(client, f"t-{uuid.uuid4()}", 2)
        ran = subprocess.run(
            [sys.executable, str(PROGRAM), shared_tidelog, parts[0].topic, str(tmp_path)],
            env={**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        expected = [f"batch {index}" for index in range(2000)] + [f"stream {index}" for index in range(500)]
        assert committed(client, parts) == sorted(expected)
        record = next(record for record in client.read(parts[1], 0) if record.key == b"1001")
    assert (record.value, list(record.headers), record.timestamp) == (b"batch 1001", [("h", b"x")], 1001)
    for line, refusal in zip(ran.stdout.splitlines(), REFUSALS, strict=True):
        assert refusal in line
