"""`tidelog load` with Spark: its files have what was produced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.plugins.spark_sink.load.running import run_load
from tests.plugins.spark_sink.queries import Topic, new_topic
from tidelog.plugins.client import NewRecord
from tidelog.plugins.spark_sink.load.command import load
from tidelog.plugins.spark_sink.load.directory import LoadDirectory
from tidelog.plugins.spark_sink.load.errors import LoadFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 24 * 3_600_000
FIRST_MS = 1_769_817_600_000


@pytest.fixture(scope="module")
def topic(shared_tidelog: str) -> Iterator[Topic]:
    """Records with and without keys and headers, on two days; an aborted transaction and a committed one."""
    with new_topic(shared_tidelog, 2) as topic:
        records = [
            NewRecord(b"v0", b"k", [("h", b"1"), ("h", None)], FIRST_MS),
            NewRecord(None, b"k", timestamp=FIRST_MS + 1),
            NewRecord(b"", None, timestamp=FIRST_MS + DAY_MS),
        ]
        topic.client.produce(topic.partition(0), records)
        topic.produce(1, [str(index) for index in range(5)], timestamp=FIRST_MS)
        producer = topic.client.init_transactions(f"id-of-{topic.name}")
        for end, value in (
            (topic.client.abort_transaction, "aborted"),
            (topic.client.commit_transaction, "committed"),
        ):
            producer.begin_transaction()
            topic.produce_in(producer, 1, [value])
            end(producer)
        yield topic


def rows(spark: SparkSession, target: Path) -> list[dict[str, Any]]:
    """What Spark reads, by partition and offset."""
    table = spark.read.parquet(str(target)).orderBy("partition", "offset")
    return [row.asDict(recursive=True) for row in table.collect()]


def test_load_writes_what_was_produced(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    target = tmp_path / "a table"
    summary = run_load(topic, target, "--task-records", "2", "--chunk-records", "4")
    assert (summary["records"], summary["partitions"], summary["chunks"]) == (9, 2, 3)
    found = rows(spark, target)
    # Without offset 5, which was aborted, and markers.
    offsets = [(row["partition"], row["offset"]) for row in found]
    assert offsets == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 7)]
    assert [row["value"] for row in found] == [b"v0", None, b"", b"0", b"1", b"2", b"3", b"4", b"committed"]
    assert [row["key"] for row in found[:3]] == [b"k", b"k", None]
    assert found[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert [row["headers"] for row in found[1:]] == [None] * 8
    assert [str(row["date"]) for row in found[:3]] == ["2026-01-31", "2026-01-31", "2026-02-01"]
    assert {row["topic"] for row in found} == {topic.name}
    assert sorted(path.name for path in (target / f"topic={topic.name}").iterdir())[:2] == [
        "date=2026-01-31",
        "date=2026-02-01",
    ]
    assert len([*target.rglob("*.parquet")]) == summary["files"]


def test_load_writes_timestamps_with_statistics(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    run_load(topic, tmp_path / "t", "--partition-by", "partition")
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before
    (file,) = (tmp_path / "t" / "partition=0").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = {each.path_in_schema: each for each in map(group.column, range(group.num_columns))}
    timestamps = columns["timestamp"]
    assert timestamps.physical_type == "INT64"
    found = (timestamps.statistics.min, timestamps.statistics.max)
    assert [int(each.timestamp() * 1000) for each in found] == [FIRST_MS, FIRST_MS + DAY_MS]


@pytest.mark.long
def test_load_continues_and_is_then_complete(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """A chunk whose commit was lost is written again; the rest is left as it is."""
    run_load(topic, tmp_path / "t", "--chunk-records", "2", "--task-records", "2")
    commits = tmp_path / "t" / "_tidelog_load" / "commits"
    lost = LoadDirectory(tmp_path / "t").recover()[1]
    (commits / "000001.json").unlink()
    for file in lost.files:
        (tmp_path / "t" / lost.target(file)).unlink()
    summary = run_load(topic, tmp_path / "t", "--chunk-records", "9999")
    assert (summary["chunks_before"], summary["chunks"]) == (5, 6)
    assert [row["offset"] for row in rows(spark, tmp_path / "t")] == [0, 1, 2, 0, 1, 2, 3, 4, 7]


def test_load_of_a_time_range_with_columns_of_its_own(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    flags = ["--from-time", str(FIRST_MS + 2), "--to-time", "2026-02-01", "--no-headers"]
    columns = ["--select", "CAST(value AS STRING) AS text", "--select", "offset % 2 AS odd"]
    more = ["--partition-by", "odd,hour", "--write-option", "compression=zstd"]
    assert run_load(topic, tmp_path / "t", *flags, *columns, *more)["records"] == 3
    table = spark.read.parquet(str(tmp_path / "t"))
    assert table.columns == ["text", "odd", "hour"]
    assert sorted(tuple(row) for row in table.collect()) == [("2", 0, 0), ("3", 1, 0), ("4", 0, 0)]
    assert all(file.name.endswith(".zstd.parquet") for file in (tmp_path / "t").rglob("*.parquet"))


@pytest.mark.long
def test_load_of_topics_that_match_into_json_with_aborted_records(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    flags = ["--pattern", f"^{topic.name}$", "--into", str(tmp_path / "t"), "--format", "json"]
    flags += ["--bootstrap-server", topic.bootstrap, "--partition-by", ""]
    load.main([*flags, "--option", "kafka.isolation.level=read_uncommitted"], standalone_mode=False)
    assert spark.read.json(str(tmp_path / "t")).count() == 10


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--format", "parquett"], "Spark cannot write the files: .*parquett"),
        (["--partition-by", "station"], "Spark cannot write the files: .*station"),
        (["--select", "no_column"], "Spark cannot write the files: .*no_column"),
        (["--format", "csv"], "Spark cannot write the files: .*"),
        (["--format", "noop"], 'Spark cannot write the files: .*"noop" cannot be written'),
    ],
)
def test_load_explains_what_spark_refuses(
    spark: SparkSession, topic: Topic, tmp_path: Path, flags: list[str], message: str
) -> None:
    assert spark.version
    with pytest.raises(LoadFailed, match=message) as raised:
        run_load(topic, tmp_path / "t", *flags)
    assert "\n" not in str(raised.value)


@pytest.mark.long
def test_load_of_offsets_that_were_deleted_meanwhile(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    """Between the first start, which fixed them, and the next one."""
    assert spark.version
    with new_topic(shared_tidelog) as topic:
        topic.produce(0, [str(index) for index in range(10)])
        with pytest.raises(LoadFailed):
            run_load(topic, tmp_path / "t", "--chunk-records", "4", "--format", "noop")
        topic.delete_records(0, 3)
        with pytest.raises(LoadFailed, match=r"Offsets 0 to 2 of .*-0 were deleted"):
            run_load(topic, tmp_path / "t", "--format", "noop")
        with pytest.raises(LoadFailed, match='--format was "noop" and is now "parquet"'):
            run_load(topic, tmp_path / "t")
        assert run_load(topic, tmp_path / "t", "--overwrite", "--skip-deleted")["records"] == 7
