"""The writers as Spark creates them, without Spark: which columns they take, and what they refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
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
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.writer.writers import (
    InvalidColumns,
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
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
    with pytest.raises(InvalidOption, match="cannot be overwritten"):
        writer(options, struct(value="binary"), overwrite=True)
    pickle.loads(pickle.dumps(writer(options, struct(value="binary"), overwrite=False)))


def test_the_plugin_loads_no_pyspark_and_no_arrow() -> None:
    program = "import tidelog.plugins.spark_sink, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pyspark", "pyarrow"} & set(done.stdout.split())
