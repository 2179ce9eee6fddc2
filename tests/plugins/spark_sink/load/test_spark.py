"""What a load asks of Spark, without a JVM, and what is read out of the long texts that Spark raises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tests.deadlines import DEADLINE_S
from tests.plugins.spark_sink.load.fake_session import (
    COLUMNS,
    RECORDS,
    Jobs,
    Session,
    Starts,
    Written,
    fake_session,
)
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.load import spark
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.request import LoadRequest
from tidelog.plugins.spark_sink.load.spark import SparkChunks, failure_text, spark_session
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source.limits import OffsetLimit
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.source.subscriptions import Partitions

OF_A_TASK = """An error occurred while calling o99.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
Traceback (most recent call last):
  File "source/reading.py", line 12, in read_range
tidelog.plugins.spark_sink.source.errors.DataLost: offsets 0 to 2 of t-0 cannot be read: its log begins at 3
"""


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (OF_A_TASK, "offsets 0 to 2 of t-0 cannot be read: its log begins at 3"),
        (
            "An error occurred while calling o1068.save.\n: org.apache.spark.X: [NOT_FOUND] No x.\n\tat y",
            "[NOT_FOUND] No x.",
        ),
        ("[NO_COLUMN] A column cannot be resolved.\n'Project", "[NO_COLUMN] A column cannot be resolved."),
        ("", "RuntimeError"),
    ],
)
def test_failure_text_is_the_cause_alone(raised: str, text: str) -> None:
    assert failure_text(RuntimeError(raised)) == text


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
CHUNK = (OffsetRange(A0, 5, 8), OffsetRange(A1, 0, 3), OffsetRange(B0, 100, 101))
REQUEST = LoadRequest(
    topics=("a", "b"),
    pattern=None,
    limits={},
    format="orc",
    partition_by=("topic",),
    select=(),
    headers=False,
    write_options={"compression": "zstd"},
    source_options={},
    settings={},
)
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return fake_session(monkeypatch)


def write(session: Session, on_progress: Callable[[float], None] = lambda _: None, **changes: Any) -> int:
    """Write the chunk of a request that has these changes."""
    chunks = SparkChunks(session, attrs.evolve(REQUEST, **changes), "host:1", 7)  # type: ignore[arg-type]
    chunks.read_with(localLogDirs="/logs")
    return chunks.write(CHUNK, Path("/t/staging"), on_progress)


def test_a_chunk_is_read_at_its_offsets_with_the_options_of_the_load(session: Session) -> None:
    assert write(session) == RECORDS
    (given,) = session.reads
    options = parse_options(given, streaming=False)
    assert options.bootstrap_servers == "host:1"
    assert options.subscription == Partitions(frozenset({A0, A1, B0}))
    assert isinstance(options.start, OffsetLimit)
    assert options.start.offsets == {A0: 5, A1: 0, B0: 100}
    assert isinstance(options.end, OffsetLimit)
    assert options.end.offsets == {A0: 8, A1: 3, B0: 101}
    assert options.max_records_per_task == 7
    assert options.local_log_dirs == (Path("/logs"),)
    assert not options.include_headers


def test_a_chunk_is_written_as_the_request_says(session: Session) -> None:
    write(session)
    assert session.written == [
        Written(COLUMNS, "orc", {"compression": "zstd"}, ("topic",), "file:///t/staging")
    ]


@pytest.mark.parametrize(
    ("select", "partition_by", "columns"),
    [
        ((), ("topic", "date"), [*COLUMNS, "date"]),
        ((), ("date", "hour"), [*COLUMNS, "date", "hour"]),
        (("value", "offset % 2 AS odd"), ("odd", "hour"), ["value", "odd", "hour"]),
        (("date", "value"), ("date",), ["date", "value"]),
        (("value",), ("station",), ["value"]),
    ],
)
def test_columns_are_the_selected_ones_and_those_that_folders_are_made_of(
    session: Session, select: tuple[str, ...], partition_by: tuple[str, ...], columns: list[str]
) -> None:
    """Spark itself refuses to partition by a column that there is not."""
    write(session, select=select, partition_by=partition_by)
    assert [(each.columns, each.folders) for each in session.written] == [(columns, partition_by)]
    assert session.derived == {"date": "to_date(timestamp)", "hour": "hour(timestamp)"}


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (PySparkException("[NO] No x.\nmore"), LoadFailed, r"^Spark cannot write the files: \[NO\] No x\.$"),
        (Py4JNetworkError("the JVM is gone"), LoadFailed, "^Spark cannot write the files: the JVM is gone$"),
        (OSError("of the load"), OSError, "^of the load$"),
    ],
)
def test_an_error_of_spark_is_one_sentence_and_another_is_left_as_it_is(
    session: Session, error: Exception, raised: type[Exception], message: str
) -> None:
    def fail() -> None:
        raise error

    session.on_save = fail
    with pytest.raises(raised, match=message):
        write(session)


def test_progress_is_the_share_of_tasks_that_have_ended(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "_POLL_S", 0.001)
    Jobs(session)
    seen: list[float] = []
    has_seen = threading.Event()

    def note(share: float) -> None:
        seen.append(share)
        has_seen.set()

    session.on_save = lambda: assert_set(has_seen)
    write(session, note)
    assert set(seen) == {6 / 8}


def assert_set(event: threading.Event) -> None:
    """Wait for an event."""
    assert event.wait(DEADLINE_S)


def test_no_progress_is_reported_when_a_chunk_is_written(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would come after that of the commit."""
    monkeypatch.setattr(spark, "_POLL_S", 0.001)
    Jobs(session)
    begun, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def be_slow(_share: float) -> None:
        begun.set()
        assert_set(may_end)
        ended.append(threading.current_thread().daemon)

    def save() -> None:
        assert_set(begun)
        threading.Timer(0.05, may_end.set).start()

    session.on_save = save
    write(session, be_slow)
    assert ended == [True], "a thread that does not end must not keep the process"


class Stopped(Exception):
    """What ends a load."""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    return Starts(monkeypatch)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({}, {}),
        ({"spark.master": "local[1]", "spark.sql.shuffle.partitions": "3"},) * 2,
    ],
)
def test_spark_is_started_with_the_settings_of_loads_unless_others_are_given(
    starts: Starts, tmp_path: Path, given: dict[str, str], settings: dict[str, str]
) -> None:
    """A task is repeated, dates and hours are in UTC, and timestamps have statistics."""
    log = tmp_path / "spark.log"
    log.write_bytes(b"before ")
    with suppress(Stopped), spark_session(given, log):
        assert starts.calls == ["prepare", "session"]
        raise Stopped
    assert starts.calls[2:] == ["stop"]
    assert log.read_bytes() == b"before what Java says"
    assert starts.settings == {
        "spark.master": "local[*,4]",
        "spark.app.name": "tidelog load",
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.session.timeZone": "UTC",
        TIMESTAMPS: "TIMESTAMP_MICROS",
        **settings,
    }


def test_spark_that_does_not_start_is_explained_by_its_log(starts: Starts, tmp_path: Path) -> None:
    starts.fails = True
    log = tmp_path / "spark.log"
    started = spark_session({}, log)
    with pytest.raises(LoadFailed, match=f"^Spark does not start; the end of {log} says why.$"):
        started.__enter__()
    assert starts.calls == ["prepare"]


@pytest.mark.parametrize("error", [None, Stopped()])
@pytest.mark.parametrize(
    ("given", "during"), [({}, "TIMESTAMP_MICROS"), ({TIMESTAMPS: "INT96", "spark.x": "y"}, "INT96")]
)
def test_the_active_session_is_used_and_left_as_it_was(
    starts: Starts,
    session: Session,
    tmp_path: Path,
    given: dict[str, str],
    during: str,
    error: Exception | None,
) -> None:
    starts.active = session
    session.conf[TIMESTAMPS] = "TIMESTAMP_MILLIS"
    with suppress(Stopped), spark_session(given, tmp_path / "log") as found:
        assert cast("object", found) is session
        assert session.conf == {TIMESTAMPS: during}
        if error is not None:
            raise error
    assert session.conf == {TIMESTAMPS: "TIMESTAMP_MILLIS"}
    assert (starts.calls, list(tmp_path.iterdir())) == ([], [])
