"""Ranges read from the files of a broker on the same host: the same rows as over the network."""

from __future__ import annotations

import base64
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.peers import TidelogServer, running_kafka, running_tidelog
from tests.plugins.spark_sink.queries import Query, Topic, batch_rows, new_topic, ranges, values
from tidelog.plugins.client import BlockingClient, TopicPartition, iter_batches
from tidelog.plugins.client.errors import RequestTimedOut
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source import local_log
from tidelog.plugins.spark_sink.source.local_log import PartitionDirectory, SegmentFilesReader, find_local_log

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


def topic_id_of(directory: Path) -> UUID:
    """As the directory's own metadata say; of one that is gone, any."""
    metadata = directory / "partition.metadata"
    encoded = metadata.read_text().split("topic_id: ")[1].strip() if metadata.exists() else "A" * 22
    return UUID(bytes=base64.urlsafe_b64decode(encoded + "=="))


def read(directory: Path, start: int, stop: int, *, read_committed: bool = False) -> tuple[list[int], int]:
    """Base offsets of the batches, and the next offset at the end."""
    wanted = OffsetRange(TopicPartition("t", 0), start, stop)
    log = SegmentFilesReader(
        PartitionDirectory(directory, topic_id_of(directory)), wanted, read_committed=read_committed
    )
    return [header.base_offset for header, _ in log.batches()], log.position


@pytest.mark.parametrize("read_bytes", [100, 50_000, 1024 * 1024])
def test_local_log_reads_any_range(directory: Path, read_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes are read at once, whether they end within a batch or not."""
    monkeypatch.setattr(local_log, "READ_BYTES", read_bytes)
    assert len(list(directory.glob("*.log"))) > 2
    for start, stop in [(0, COUNT), (0, 1), (17, 18), (29, 47), (COUNT - 1, COUNT)]:
        assert read(directory, start, stop) == ([*range(start, stop)], stop)


def copy_of(directory: Path, folder: Path) -> Path:
    """The segments, their indexes and the topic id; the broker may write and rename other files meanwhile."""
    copied = folder / "t-0"
    copied.mkdir()
    for path in [directory / "partition.metadata", *directory.glob("*.log"), *directory.glob("*.index")]:
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


@pytest.mark.parametrize("is_there", [False, True])
def test_local_log_warns_of_an_index_that_cannot_be_read_but_not_of_one_that_is_gone(
    is_there: bool, directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copied = copy_of(directory, tmp_path)
    for path in copied.glob("*.index"):
        path.unlink()
        if is_there:
            path.mkdir()
    assert read(copied, 11, COUNT) == ([*range(11, COUNT)], COUNT)
    assert ("what its files do not give" in caplog.text) is is_there


def test_local_log_ends_at_what_it_cannot_read(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker is asked from there on, with a warning unless the file is gone."""
    copied = copy_of(directory, tmp_path)
    first, second, *_ = sorted(copied.glob("*.log"))
    damaged = bytearray(second.read_bytes())
    damaged[70] ^= 1
    second.write_bytes(damaged)
    until = int(second.stem)
    assert read(copied, 0, COUNT) == ([*range(until)], until)
    (warning,) = caplog.messages
    assert "what its files do not give" in warning
    caplog.clear()
    first.unlink()
    assert read(copied, 0, COUNT) == ([], 0)
    shutil.rmtree(copied)
    assert read(copied, 0, COUNT) == ([], 0)
    assert not caplog.messages


@pytest.fixture
def copied(directory: Path, tmp_path: Path) -> Path:
    """A copy of the segments, of which there are three."""
    copied = copy_of(directory, tmp_path)
    assert len(list(copied.glob("*.log"))) == 3
    return copied


@pytest.mark.parametrize("zeros", [0, 8, 800])
def test_local_log_begins_at_the_batch_that_the_index_names(
    copied: Path, zeros: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch has an entry; the rest of an active index may be zeros."""
    starts: list[int] = []
    whole_batches = local_log.whole_batches

    def noting(descriptor: int, place: int) -> bytes:
        starts.append(place)
        return whole_batches(descriptor, place)

    monkeypatch.setattr(local_log, "whole_batches", noting)
    for segment in copied.glob("*.log"):
        index = segment.with_suffix(".index")
        index.write_bytes(index.read_bytes() + bytes(zeros))
        place = 0
        for header, data in [*iter_batches(memoryview(segment.read_bytes()))]:
            starts.clear()
            assert read(copied, header.base_offset, header.next_offset)[0] == [header.base_offset]
            assert starts[0] == place
            place += len(data)


def test_local_log_does_without_an_index_that_names_a_later_batch(copied: Path) -> None:
    for segment in copied.glob("*.log"):
        *_, (_, last) = iter_batches(memoryview(segment.read_bytes()))
        place = segment.stat().st_size - len(last)
        segment.with_suffix(".index").write_bytes(struct.pack(">ii", 1, place))
    assert read(copied, 11, COUNT) == ([*range(11, COUNT)], COUNT)


def replacement(directory: Path) -> list[Callable[[], object]]:
    """The steps that put two segments in the place of the middle one, as brokers do.

    Together they have all of its batches, so that a reader has to find them whenever it looks.
    """
    old = sorted(directory.glob("*.log"))[1]
    batches = [*iter_batches(memoryview(old.read_bytes()))]
    halves = batches[: len(batches) // 2], batches[len(batches) // 2 :]
    new = {old.with_name(f"{half[0][0].base_offset:020}.log"): half for half in halves}

    def write(path: Path) -> None:
        path.with_suffix(".log.swap").write_bytes(b"".join(data for _, data in new[path]))

    def rename(path: Path) -> None:
        path.with_suffix(".log.swap").rename(path)

    first, second = new
    return [
        partial(write, second),
        partial(write, first),
        partial(old.rename, f"{old}.deleted"),
        partial(rename, first),
        partial(rename, second),
    ]


def at_open(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Do something just before that many files have been opened."""
    opened = 0
    open_file = os.open

    def opening(path: Path, flags: int) -> int:
        nonlocal opened
        opened += 1
        if opened == number:
            act()
        return open_file(path, flags)

    monkeypatch.setattr("tidelog.plugins.spark_sink.source.local_log.os.open", opening)


@pytest.mark.parametrize("start", [0, 30, COUNT - 2])
@pytest.mark.parametrize("opened", [1, 2, 3])
def test_local_log_leaves_out_nothing_while_segments_are_replaced(
    copied: Path, tmp_path: Path, start: int, opened: int
) -> None:
    """With any number of the steps done before it looks, and of the others while it opens files."""
    for before, after in combinations_with_replacement(range(len(replacement(copied)) + 1), 2):
        directory = tmp_path / f"{before}-{after}"
        shutil.copytree(copied, directory)
        steps = replacement(directory)
        perform(steps[:before])
        with pytest.MonkeyPatch.context() as patch:
            at_open(patch, opened, partial(perform, steps[before:after]))
            offsets, position = read(directory, start, COUNT)
        assert offsets == [*range(start, position)]
        if before == after and before in (0, len(steps)):
            assert position == COUNT


def perform(steps: Iterable[Callable[[], object]]) -> None:
    """Do them all."""
    for step in steps:
        step()


def test_local_log_reads_on_in_files_that_are_replaced_meanwhile(copied: Path) -> None:
    wanted = OffsetRange(TopicPartition("t", 0), 0, COUNT)
    log = SegmentFilesReader(PartitionDirectory(copied, topic_id_of(copied)), wanted, read_committed=False)
    batches = log.batches()
    offsets = [next(batches)[0].base_offset]
    perform(replacement(copied))
    assert offsets + [header.base_offset for header, _ in batches] == [*range(COUNT)]


@pytest.mark.parametrize("cut_bytes", [1, 30, 20_000])
def test_local_log_ends_at_a_segment_that_ends_inside_a_batch(copied: Path, cut_bytes: int) -> None:
    _, middle, last = sorted(copied.glob("*.log"))
    os.truncate(middle, middle.stat().st_size - cut_bytes)
    until = int(last.stem) - 1
    assert read(copied, 0, COUNT) == ([*range(until)], until)


def test_local_log_ends_at_a_segment_whose_rest_is_zeros(copied: Path) -> None:
    """As that of a preallocated file."""
    _, middle, last = sorted(copied.glob("*.log"))
    for zeros in (20, 200, 100_000):
        os.truncate(middle, middle.stat().st_size + zeros)
        assert read(copied, 0, COUNT) == ([*range(int(last.stem))], int(last.stem))


def test_local_log_reads_nothing_of_a_topic_that_has_taken_the_name(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that happens while its files are opened."""
    expected = [*range(COUNT)]
    assert read(copied, 0, COUNT)[0] == expected
    topic_id = topic_id_of(copied)

    def recreate() -> None:
        (copied / "partition.metadata").write_text(f"version: 0\ntopic_id: {'B' * 22}")

    at_open(monkeypatch, 2, recreate)
    wanted = OffsetRange(TopicPartition("t", 0), 0, COUNT)
    for _ in ("while it is opened", "before"):
        log = SegmentFilesReader(PartitionDirectory(copied, topic_id), wanted, read_committed=False)
        assert (list(log.batches()), log.position) == ([], 0)


def open_files() -> set[str]:
    """Descriptors of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_local_log_closes_its_files(copied: Path) -> None:
    before = open_files()
    assert len(read(copied, 0, COUNT)[0]) == COUNT
    wanted = OffsetRange(TopicPartition("t", 0), 0, COUNT)
    unfinished = SegmentFilesReader(
        PartitionDirectory(copied, topic_id_of(copied)), wanted, read_committed=False
    ).batches()
    next(unfinished)
    del unfinished
    assert open_files() == before


def test_find_local_log_takes_the_directory_of_that_topic_alone(
    tidelog: TidelogServer, topic: Topic, tmp_path: Path
) -> None:
    topic_id = topic.client.metadata([topic.name]).topics[topic.name].topic_id
    folders = [tmp_path, tidelog.data_dir]
    partition = topic.partition(0)
    found = find_local_log(folders, partition, topic_id)
    assert found is not None
    assert found.path == tidelog.data_dir / str(partition)
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
            patch.setattr("tidelog.plugins.spark_sink.source.reading.BlockingDriver", None)
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


@pytest.fixture
def unplanned(tidelog: TidelogServer, topic: Topic) -> Iterator[Query]:
    """A query whose first micro-batch has an end, and no tasks yet."""
    with Query(
        topic,
        startingOffsets="earliest",
        failOnDataLoss=False,
        fetchOffset__numRetries=1,
        localLogDirs=str(tidelog.data_dir),
        prefetchOffsets=0,
    ) as query:
        query.plan()
        yield query


def tasks_from_brokers(query: Query) -> list[tuple[int, int, int]]:
    """The ranges of tasks that read no files."""
    return ranges([task for task in query.planned(0)[0] if task.local_log is None])


def test_files_of_a_topic_that_is_gone_are_not_planned(
    topic: Topic, unplanned: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tasks_from_brokers(unplanned) == []
    topic.delete()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the broker would take seconds to answer: the topic might still come")

    monkeypatch.setattr(BlockingClient, "list_offsets", refuse)
    assert tasks_from_brokers(unplanned) == [(0, 0, COUNT)]


def test_files_are_left_alone_when_the_broker_does_not_say_where_their_log_starts(
    unplanned: Query, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def time_out(*_: object, **__: object) -> None:
        raise RequestTimedOut("list_offsets", 3)

    monkeypatch.setattr(BlockingClient, "list_offsets", time_out)
    assert tasks_from_brokers(unplanned) == [(0, 0, COUNT)]
    assert (
        "segment files are not read by the tasks of this micro-batch: no answer to list_offsets"
        in caplog.text
    )


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


@pytest.mark.parametrize("is_there", [False, True])
def test_is_of_topic_warns_of_a_file_that_cannot_be_read_but_not_of_one_that_is_gone(
    is_there: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if is_there:
        (tmp_path / "partition.metadata").mkdir()
    assert not PartitionDirectory(tmp_path, uuid4()).is_of_topic()
    assert ("what its files do not give" in caplog.text) is is_there
