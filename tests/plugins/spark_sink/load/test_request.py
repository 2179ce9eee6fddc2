"""What a load is asked for: what of it belongs to a directory, and the options that it becomes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.tables import for_each
from tidelog.plugins.client import TopicPartition
from tidelog.plugins.spark_sink.load.request import LoadRequest, differences
from tidelog.plugins.spark_sink.load.times import iso_time
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.limits import OffsetLimit, TimestampLimit
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST
from tidelog.plugins.spark_sink.source.subscriptions import SelectedPattern, SelectedTopics

BASE = LoadRequest(
    topics=("a", "b"),
    pattern=None,
    limits={},
    format="parquet",
    partition_by=("topic", "date"),
    select=(),
    headers=True,
    write_options={},
    source_options={},
    settings={},
)
EVERY = attrs.evolve(
    BASE,
    limits={
        "--from-time": "1769817600000",
        "--to-time": "1769904000000",
        "--from-offsets": "earliest",
        "--to-offsets": "latest",
    },
    select=("value",),
    headers=False,
    write_options={"z": "1", "compression": "zstd"},
    source_options={"Kafka.Isolation.Level": "read_uncommitted", "kafka.fetch.min.bytes": "2"},
    settings={"spark.sql.b": "1", "spark.sql.a": "2"},
)


def test_identity_of_a_release_is_that_of_later_ones() -> None:
    """It is stored, and another one is refused."""
    assert BASE.identity() == {
        "TOPIC": ["a", "b"],
        "--pattern": None,
        "--from-time": None,
        "--to-time": None,
        "--from-offsets": None,
        "--to-offsets": None,
        "--format": "parquet",
        "--partition-by": ["topic", "date"],
        "--select": [],
        "--no-headers": False,
        "--write-option": {},
        "--option kafka.isolation.level": "read_committed",
        "--conf": {},
    }
    found = EVERY.identity()
    assert found == {
        **BASE.identity(),
        "--from-time": "2026-01-31T00:00:00Z",
        "--to-time": "2026-02-01T00:00:00Z",
        "--from-offsets": "earliest",
        "--to-offsets": "latest",
        "--select": ["value"],
        "--no-headers": True,
        "--write-option": {"compression": "zstd", "z": "1"},
        "--option kafka.isolation.level": "read_uncommitted",
        "--conf": {"spark.sql.a": "2", "spark.sql.b": "1"},
    }


@for_each(
    ("given", "flag"),
    [
        ("subscribe", "TOPIC arguments"),
        ("subscribePattern", "--pattern"),
        ("assign", "TOPIC arguments"),
        ("startingOffsets", "--from-offsets"),
        ("startingTimestamp", "--from-time"),
        ("startingOffsetsByTimestamp", "--from-time"),
        ("startingOffsetsByTimestampStrategy", "--from-time"),
        ("endingOffsets", "--to-offsets"),
        ("endingTimestamp", "--to-time"),
        ("endingOffsetsByTimestamp", "--to-time"),
        ("maxOffsetsPerTrigger", "--chunk-records"),
        ("minOffsetsPerTrigger", "--chunk-records"),
        ("maxTriggerDelay", "--chunk-records"),
        ("minPartitions", "--task-records"),
        ("maxRecordsPerPartition", "--task-records"),
        ("failOnDataLoss", "--skip-deleted"),
        ("includeHeaders", "--no-headers"),
        ("localLogDirs", "--local-log-dir"),
        ("kafka.bootstrap.servers", "--bootstrap-server"),
        ("kafka.group.id", "nothing: a load stores its position in the directory"),
    ],
)
def test_options_that_flags_set_are_refused(given: str, flag: str) -> None:
    request = attrs.evolve(BASE, source_options={"kafka.fetch.min.bytes": "1", given: "x"})
    with pytest.raises(InvalidOption) as raised:
        request.options("host:1")
    assert str(raised.value) == f"--option cannot set {given}: use {flag}"


def test_options_are_those_that_were_given_and_those_of_the_flags() -> None:
    assert BASE.options("host:1") == {
        "kafka.bootstrap.servers": "host:1",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    assert EVERY.options("host:1") == {
        **EVERY.source_options,
        "kafka.bootstrap.servers": "host:1",
        "includeHeaders": "false",
        "kafka.isolation.level": "read_uncommitted",
    }


@for_each(
    ("changes", "expected"),
    [
        ({}, (OffsetLimit("--from-offsets", EARLIEST, {}), OffsetLimit("--to-offsets", LATEST, {}))),
        (
            {"limits": {"--from-time": "5", "--to-time": "7"}},
            (
                TimestampLimit("--from-time", 5, {}, must_match=False),
                TimestampLimit("--to-time", 7, {}, must_match=False),
            ),
        ),
        (
            {"limits": {"--from-offsets": '{"a": {"0": 3}}', "--to-offsets": '{"a": {"0": 4}}'}},
            (
                OffsetLimit("--from-offsets", None, {TopicPartition("a", 0): 3}),
                OffsetLimit("--to-offsets", None, {TopicPartition("a", 0): 4}),
            ),
        ),
    ],
)
def test_parsed_has_the_range_of_the_flags(changes: dict[str, Any], expected: tuple[object, object]) -> None:
    found = attrs.evolve(BASE, **changes).parsed("host:1", skip_deleted=False)
    assert (found.start, found.end) == expected


def test_parsed_has_topics_or_a_pattern_and_whether_deleted_records_are_skipped() -> None:
    by_name, by_pattern = BASE, attrs.evolve(BASE, topics=(), pattern="^a")
    found = by_name.parsed("host:1", skip_deleted=False)
    assert (found.fail_on_data_loss, found.bootstrap_servers) == (True, "host:1")
    assert found.subscription == SelectedTopics(("a", "b"))
    found = by_pattern.parsed("host:1", skip_deleted=True)
    assert not found.fail_on_data_loss
    assert found.subscription == SelectedPattern("^a")


def test_differences_are_named_by_flags() -> None:
    assert differences(BASE.identity(), BASE.identity()) == []
    first: dict[str, Any] = {
        "--pattern": None,
        "--select": [],
        "--conf": {},
        "--no-headers": False,
        "--format": "orc",
    }
    now = {
        "--pattern": "^a",
        "--select": ["x"],
        "--conf": {"a": "1"},
        "--no-headers": True,
        "--format": "csv",
    }
    assert differences(first, now) == [
        '--pattern was not given and is now "^a"',
        '--select was not given and is now ["x"]',
        '--conf was not given and is now {"a": "1"}',
        "--no-headers was not given and is now true",
        '--format was "orc" and is now "csv"',
    ]


@for_each(
    ("timestamp", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        ("1769862600250", "2026-01-31T12:30:00.250000Z"),
        (10**17, "100000000000000000"),
    ],
)
def test_iso_time_is_as_people_read_it(timestamp: int | str, text: str) -> None:
    assert iso_time(timestamp) == text
