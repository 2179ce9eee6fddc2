"""Ranges read from the files of a broker on the same host: the same rows as over the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.peers import TidelogServer, running_kafka, running_tidelog
from tests.plugins.spark_sink.queries import Query, Topic, batch_rows, new_topic, values
from tidelog.plugins.client import TopicPartition
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source import local_log
from tidelog.plugins.spark_sink.source.local_log import LocalLog, find_local_log

COUNT = 60


@pytest.fixture(scope="module")
def tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogServer]:
    """A broker whose directory is known."""
    with running_tidelog(tmp_path_factory.mktemp("local")) as server:
        yield server


@pytest.fixture
def topic(tidelog: TidelogServer) -> Iterator[Topic]:
    """A topic in several segments with index entries, 60 records, one in a batch."""
    with new_topic(tidelog.bootstrap, segment_bytes=str(1024 * 1024), index_interval_bytes="200") as topic:
        fill(topic)
        yield topic


def fill(topic: Topic) -> None:
    """Append records, so large that there are several segments of the least size that a topic may have."""
    for index in range(COUNT):
        topic.produce(0, [f"v{index:<40000}"])


@pytest.fixture
def directory(tidelog: TidelogServer, topic: Topic) -> Path:
    """The topic's files."""
    return tidelog.data_dir / f"{topic.name}-0"


def read(directory: Path, start: int, stop: int, *, read_committed: bool = False) -> tuple[list[int], int]:
    """Base offsets of the batches, and the next offset at the end."""
    wanted = OffsetRange(TopicPartition("t", 0), start, stop)
    log = LocalLog(directory, wanted, read_committed=read_committed)
    return [header.base_offset for header, _ in log.batches()], log.position


@pytest.mark.parametrize("read_bytes", [100, 50_000, 1024 * 1024])
def test_local_log_reads_any_range(directory: Path, read_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes are read at once, whether they end within a batch or not."""
    monkeypatch.setattr(local_log, "READ_BYTES", read_bytes)
    assert len(list(directory.glob("*.log"))) > 2
    for start, stop in [(0, COUNT), (0, 1), (17, 18), (29, 47), (COUNT - 1, COUNT)]:
        assert read(directory, start, stop) == ([*range(start, stop)], stop)


def test_local_log_begins_where_the_index_says(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    whole_batches = local_log.whole_batches

    def noting(descriptor: int, place: int) -> bytes:
        starts.append(place)
        return whole_batches(descriptor, place)

    monkeypatch.setattr(local_log, "whole_batches", noting)
    last_of_first = int(sorted(directory.glob("*.log"))[1].stem) - 1
    assert read(directory, last_of_first, last_of_first + 1)[0] == [last_of_first]
    assert starts[0] > 0


def copy_of(directory: Path, folder: Path) -> Path:
    """The segments and their indexes; the broker may write and rename other files meanwhile."""
    copied = folder / "t-0"
    copied.mkdir()
    for path in [*directory.glob("*.log"), *directory.glob("*.index")]:
        shutil.copy(path, copied)
    return copied


@pytest.mark.parametrize("index", [b"", b"\xff" * 7, b"\x7f" * 16, b"\0\0\0\1\0\0\0\2", b"\0" * 64])
def test_local_log_does_without_a_usable_index(directory: Path, tmp_path: Path, index: bytes) -> None:
    copied = copy_of(directory, tmp_path)
    for path in copied.glob("*.index"):
        path.write_bytes(index)
    assert read(copied, 11, COUNT) == ([*range(11, COUNT)], COUNT)
    for path in copied.glob("*.index"):
        path.unlink()
    assert read(copied, 11, COUNT) == ([*range(11, COUNT)], COUNT)


def test_local_log_ends_at_what_it_cannot_read(directory: Path, tmp_path: Path) -> None:
    """The broker is asked from there on."""
    copied = copy_of(directory, tmp_path)
    first, second, *_ = sorted(copied.glob("*.log"))
    damaged = bytearray(second.read_bytes())
    damaged[70] ^= 1
    second.write_bytes(damaged)
    until = int(second.stem)
    assert read(copied, 0, COUNT) == ([*range(until)], until)
    first.unlink()
    assert read(copied, 0, COUNT) == ([], 0)
    shutil.rmtree(copied)
    assert read(copied, 0, COUNT) == ([], 0)


def test_find_local_log_takes_the_directory_of_that_topic_alone(
    tidelog: TidelogServer, topic: Topic, tmp_path: Path
) -> None:
    topic_id = topic.client.metadata([topic.name]).topics[topic.name].topic_id
    folders = [tmp_path, tidelog.data_dir]
    partition = topic.partition(0)
    assert find_local_log(folders, partition, topic_id) == tidelog.data_dir / str(partition)
    assert find_local_log(folders, partition, UUID(int=5)) is None
    assert find_local_log(folders, partition, None) is None
    assert find_local_log(folders, topic.partition(1), topic_id) is None


def test_a_query_reads_the_files_and_nothing_else(
    tidelog: TidelogServer, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = batch_rows(topic)
    with Query(
        topic, startingOffsets="earliest", prefetchOffsets=0, localLogDirs=str(tidelog.data_dir)
    ) as query:
        query.plan()
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.plugins.spark_sink.source.reading.BlockingClient", None)
            assert read_all(query) == expected


def read_all(query: Query) -> list[tuple[int, int, bytes]]:
    """The rows of the tasks in this process; each has to have a directory."""
    rows: list[tuple[int, int, bytes]] = []
    for task in query.reader.partitions(query.start_of(0), query.start_of(1)):
        for batch in query.reader.read(task):
            columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "value"))
            rows += zip(*columns, strict=True)
    return rows


def test_a_transaction_is_read_from_the_broker_under_read_committed(
    tidelog: TidelogServer, topic: Topic
) -> None:
    producer = topic.client.init_transactions(f"id-of-{topic.name}")
    for end, value in ((topic.client.abort_transaction, "no"), (topic.client.commit_transaction, "yes")):
        producer.begin_transaction()
        topic.produce_in(producer, 0, [value])
        end(producer)
    topic.produce(0, ["last"])
    local = {"localLogDirs": str(tidelog.data_dir)}
    committed = {"kafka__isolation__level": "read_committed"}
    assert values(batch_rows(topic, **local))[COUNT:] == ["no", "yes", "last"]
    assert values(batch_rows(topic, **local, **committed))[COUNT:] == ["yes", "last"]
    assert read(tidelog.data_dir / f"{topic.name}-0", 0, 999, read_committed=True)[1] == COUNT


def test_deleted_records_are_not_read_from_files_that_still_have_them(
    tidelog: TidelogServer, topic: Topic
) -> None:
    topic.delete_records(0, before=5)
    options = {"localLogDirs": str(tidelog.data_dir), "failOnDataLoss": False}
    limits = {"startingOffsets": f'{{"{topic.name}": {{"0": 0}}}}'}
    assert values(batch_rows(topic, **options, **limits))[0].strip() == "v5"


@pytest.mark.long
def test_the_files_of_apache_kafka_are_read(tmp_path: Path) -> None:
    with (
        running_kafka(tmp_path) as server,
        new_topic(server.bootstrap, segment_bytes="1048576", index_interval_bytes="200") as topic,
    ):
        fill(topic)
        directory = server.data_dir / f"{topic.name}-0"
        assert read(directory, 41, COUNT) == ([*range(41, COUNT)], COUNT)
        assert len(batch_rows(topic, localLogDirs=str(server.data_dir))) == COUNT
