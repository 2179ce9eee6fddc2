"""Tasks of a micro-batch, with lookups that the test answers: which there are, and which read local files."""

from __future__ import annotations

import base64
import logging
import pickle
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
from pyspark.sql.datasource import InputPartition

from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source import tasks
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.local_log import PartitionDirectory
from tidelog.plugins.spark_sink.source.log_offsets import LogOffsets
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.source.tasks import RangeReader, RangeTask, SmallBatchTask

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID, OTHER = UUID(int=7), UUID(int=8)


class Lookups:
    """Stands for LogOffsets."""

    def __init__(self) -> None:
        self.starts = {T0: 0, T1: 5}
        self.asked: list[set[TopicPartition]] = []
        self.error: ClientError | None = None
        self.closed = 0

    def partitions(self) -> set[TopicPartition]:
        """See LogOffsets."""
        return set(self.starts)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See LogOffsets."""
        self.asked.append(set(partitions))
        if self.error is not None:
            raise self.error
        return {partition: self.starts[partition] for partition in partitions}

    def topic_id(self, topic: str) -> UUID:
        """See LogOffsets."""
        assert topic == "t"
        return ID

    def close(self) -> None:
        """See LogOffsets."""
        self.closed += 1


def reader(lookups: Lookups | None = None, **given: str) -> RangeReader:
    """A reader whose lookups are these."""
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}
    found = RangeReader(parse_options(options, streaming=True))
    found._log_offsets = lookups  # type: ignore[assignment] # pyright: ignore
    return found


def directory(folder: Path, partition: TopicPartition, topic_id: UUID) -> Path:
    """Make the directory of a partition as brokers do."""
    path = folder / str(partition)
    path.mkdir(parents=True)
    encoded = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {encoded}")
    return path


@for_each(
    ("given", "sizes", "expected"),
    [
        ({}, [1], True),
        ({}, [8192], True),
        ({}, [8000, 192], True),
        ({}, [8000, 193], False),
        ({}, [], False),
        ({"prefetchOffsets": "3"}, [2, 1], True),
        ({"prefetchOffsets": "3"}, [2, 2], False),
        ({"prefetchOffsets": "0"}, [1], False),
        ({"minPartitions": "1"}, [1], False),
        ({"maxRecordsPerPartition": "5"}, [1], False),
    ],
)
def test_a_small_micro_batch_is_one_task(given: dict[str, str], sizes: list[int], expected: bool) -> None:
    ranges = [OffsetRange(T0, 10, 10 + size) for size in sizes]
    assert reader(None, **given).is_small(ranges) is expected


def test_tasks_read_local_files_of_the_same_topic_whose_records_are_not_deleted(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    directory(first, T0, OTHER)
    here = directory(second, T0, ID)
    there = directory(first, T1, ID)
    lookups = Lookups()
    found = reader(lookups, localLogDirs=f"{first},{second}")
    ranges = [
        OffsetRange(T0, 0, 9),
        OffsetRange(T0, 9, 12, OTHER),
        OffsetRange(T0, 12, 15, UUID(int=9)),
        OffsetRange(T1, 4, 9),
        OffsetRange(T1, 5, 9),
        OffsetRange(U0, 0, 9),
    ]
    made = found.tasks(ranges)
    assert [each.wanted for each in made] == ranges
    assert [each.local_log for each in made] == [
        PartitionDirectory(here, ID),
        PartitionDirectory(first / "t-0", OTHER),
        None,
        None,
        PartitionDirectory(there, ID),
        None,
    ]
    assert lookups.asked == [{T0, T1}], "of those that exist"
    lookups.asked.clear()
    assert [each.local_log for each in reader(lookups).tasks(ranges)] == [None] * 6
    assert lookups.asked == [], "nothing is asked for without folders"


def test_tasks_do_without_local_files_when_a_leader_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory(tmp_path, T0, ID)
    lookups = Lookups()
    lookups.error = BrokerUnreachable([])
    with caplog.at_level(logging.WARNING):
        (task,) = reader(lookups, localLogDirs=str(tmp_path)).tasks([OffsetRange(T0, 0, 9)])
    assert task.local_log is None
    assert caplog.messages[0].startswith("segment files are not read by the tasks of this micro-batch: ")


def test_tasks_are_split_as_the_options_say() -> None:
    ranges = [OffsetRange(T0, 0, 10)]
    assert [each.wanted.size for each in reader(None, minPartitions="2").tasks(ranges)] == [5, 5]
    assert [each.wanted.size for each in reader(None, maxRecordsPerPartition="4").tasks(ranges)] == [3, 3, 4]


def test_a_reader_reads_each_kind_of_task(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[Any, ...]] = []

    def read_range(*arguments: Any) -> Iterator[str]:
        read.append(arguments)
        yield f"rows of {arguments[1].start}"

    monkeypatch.setattr(tasks, "read_range", read_range)
    found = reader(Lookups())
    local = PartitionDirectory(Path("/a"), ID)
    first, second = OffsetRange(T0, 1, 2), OffsetRange(T1, 3, 4)
    copies: Any = pickle.loads(pickle.dumps([RangeTask(first, local), SmallBatchTask([first, second])]))
    assert [list(found.read(each)) for each in copies] == [["rows of 1"], ["rows of 1", "rows of 3"]]
    assert list(found.read(InputPartition(None))) == []
    assert read == [(found.options, first, local), (found.options, first), (found.options, second)]


def test_connections_are_the_drivers_alone_and_are_closed_once() -> None:
    lookups = Lookups()
    found = reader(lookups)
    found.prefetched([])
    copy: RangeReader = pickle.loads(pickle.dumps(found))
    assert copy.options == found.options
    assert (copy.__getstate__()["_log_offsets"], copy.__getstate__()["_prefetcher"]) == (None, None)
    state = vars(copy)
    assert (state["_log_offsets"], state["_prefetcher"]) == (None, None)
    assert found.prefetched([]) == []
    prefetcher = vars(found)["_prefetcher"]
    assert prefetcher is not None
    found.prefetched([])
    assert vars(found)["_prefetcher"] is prefetcher
    found.close()
    found.close()
    assert lookups.closed == 1
    assert (vars(found)["_log_offsets"], vars(found)["_prefetcher"]) == (None, None)


def test_what_is_lost_fails_the_query_or_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLost, match=r"it is gone\. Some records may be lost"):
        reader().on_loss("it is gone")
    tolerant = RangeReader(attrs.evolve(reader().options, fail_on_data_loss=False))
    with caplog.at_level(logging.WARNING):
        tolerant.on_loss("it is gone")
    assert caplog.messages[0].startswith("it is gone. Some records may be lost; the query continues")


def test_connections_are_made_at_their_first_use() -> None:
    found = reader()
    first = found.log_offsets
    assert isinstance(first, LogOffsets)
    assert found.log_offsets is first
    found.close()
    assert found.log_offsets is not first
    found.close()
