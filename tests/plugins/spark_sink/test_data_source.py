"""The format without Spark's processes: its schema, its registration, and what it refuses."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from tidelog.plugins.spark_sink import environment, rows
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader
from tidelog.plugins.spark_sink.writer import writers

DISCOVERY = Path(environment.__file__).parent / "discovery"
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}
# As Spark looks for data sources.
LOOKUP = """
import pkgutil, importlib
for info in pkgutil.iter_modules():
    if info.name.startswith("pyspark_"):
        module = importlib.import_module(info.name)
        print(info.name, hasattr(module, "DefaultSource") and module.DefaultSource.name())
"""
WITHOUT_PYSPARK = "import sys; sys.modules['pyspark'] = None\n"


@pytest.mark.parametrize("include_headers", [True, False])
def test_schema_is_what_the_rows_have(include_headers: bool) -> None:
    """Spark takes no other types."""
    schema = TidelogDataSource({"INCLUDEHEADERS": str(include_headers)}).schema()
    expected = rows.SCHEMA_WITH_HEADERS if include_headers else rows.SCHEMA
    assert to_arrow_schema(schema, timezone="UTC").equals(expected)


@pytest.mark.parametrize("method", ["reader", "streamReader"])
def test_a_reader_refuses_a_schema_of_the_user(method: str) -> None:
    schema = StructType([StructField("value", LongType())])
    with pytest.raises(InvalidOption, match="has a schema of its own"):
        getattr(TidelogDataSource(OPTIONS), method)(schema)


@pytest.mark.parametrize("method", ["reader", "streamReader"])
def test_a_reader_refuses_an_unknown_option(method: str) -> None:
    data_source = TidelogDataSource({**OPTIONS, "subscription": "t"})
    with pytest.raises(InvalidOption, match="no option subscription; the nearest one is subscribe"):
        getattr(data_source, method)(data_source.schema())


def test_a_reader_accepts_the_options_of_a_table_that_is_written_too() -> None:
    data_source = TidelogDataSource({**OPTIONS, "topic": "t"})
    pickle.dumps(data_source.reader(data_source.schema()))


TUNED = {**OPTIONS, "topic": "t", "kafka.max.poll.records": "5", "kafka.linger.ms": "5"}
VALUES = StructType([StructField("value", BinaryType())])


def warnings_of(data_source: TidelogDataSource, query: str) -> None:
    """Do what Spark does in the process of one query that logs warnings, and for two micro-batches."""
    if query == "read":
        data_source.reader(data_source.schema())
    elif query == "write":
        data_source.writer(VALUES, overwrite=False)
    elif query == "readStream":
        reader = data_source.streamReader(data_source.schema())
        assert isinstance(reader, StreamReader)
        for _ in range(2):
            reader.getDefaultReadLimit()
    else:
        for batch in range(2):
            data_source.streamWriter(VALUES, overwrite=False).commit([], batch)


@pytest.mark.parametrize("query", ["read", "readStream", "write", "writeStream"])
def test_a_query_warns_once_of_all_options_without_effect(
    query: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "_warned", set())
    warnings_of(TidelogDataSource({**OPTIONS, "topic": "t"}), query)
    assert not caplog.records
    warnings_of(TidelogDataSource(TUNED), query)
    [record] = caplog.records
    assert record.getMessage().endswith("this query: kafka.linger.ms, kafka.max.poll.records")


def test_the_reader_of_tasks_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Spark makes it beside the one that plans."""
    data_source = TidelogDataSource(TUNED)
    pickle.dumps(data_source.streamReader(data_source.schema()))
    data_source.streamWriter(VALUES, overwrite=False)
    assert not caplog.records


def test_a_batch_reader_warns_of_options_for_streams(caplog: pytest.LogCaptureFixture) -> None:
    data_source = TidelogDataSource({**OPTIONS, "maxOffsetsPerTrigger": "5"})
    data_source.reader(data_source.schema())
    assert "no effect on this query: maxOffsetsPerTrigger" in caplog.text


def test_a_reader_says_where_the_options_of_a_table_belong() -> None:
    data_source = TidelogDataSource({})
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers is missing: .* FROM table WITH \("):
        data_source.reader(data_source.schema())


def lookup(before: str = "") -> str:
    """What Spark's lookup finds, in a fresh process."""
    environ = {**os.environ, "PYTHONPATH": str(DISCOVERY)}
    done = subprocess.run(
        [sys.executable, "-c", before + LOOKUP], capture_output=True, text=True, check=True, env=environ
    )
    return done.stdout.strip()


def test_spark_finds_the_format_by_itself() -> None:
    assert lookup() == "pyspark_tidelog tidelog"


def test_the_module_that_spark_finds_never_raises_at_its_import() -> None:
    """One module that does would hide all data sources from Spark."""
    assert lookup(WITHOUT_PYSPARK) == "pyspark_tidelog False"
    assert lookup("import sys; sys.modules['pyarrow'] = None\n") == "pyspark_tidelog tidelog"
