"""The consumer's core over a broker in memory, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from tests.plugins.client.fakes import ADDRESS, FakeBroker, metadata_message
from tests.plugins.client.manual_driver import ManualDriver
from tidelog.kernel.records import stamp_offset
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord, build_batch
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.consumer.core import ConsumerCore
from tidelog.plugins.client.consumer.settings import ConsumerSettings
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import ErrorResponse, LogTruncated
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

PLACE = TopicPartition("orders", 0)
OTHER = Address("broker-2", 9092)


class Held(Exception):
    """A request that is not answered: the broker waits for data."""


class LogBroker(FakeBroker):
    """A broker with one partition, whose records are their offsets; it waits when there are no more.

    `epoch` is that of the leader, and of what `append` adds; `ends` has where older ones end.
    """

    def __init__(self, node: int = 1) -> None:
        super().__init__(
            {
                "Metadata": self.metadata,
                "Fetch": self.fetch,
                "OffsetForLeaderEpoch": self.epoch_end,
            }
        )
        self.node = node
        self.epoch = 0
        self.batches: list[bytes] = []
        self.ends: dict[int, int] = {}
        self.preferred = -1
        self.errors: list[ErrorCode] = []
        self.fetches: list[tuple[int, int]] = []

    def receive(self, data: bytes) -> bytes:
        try:
            return super().receive(data)
        except Held:
            return b""

    @property
    def end(self) -> int:
        return len(self.batches)

    def append(self, count: int) -> None:
        for _ in range(count):
            batch = build_batch([NewRecord(b"%d" % self.end)], now_ms=0)
            stamp_offset(batch, self.end, self.epoch)
            self.batches.append(bytes(batch))

    def metadata(self, _request: MetadataRequest) -> MetadataResponse:
        message = metadata_message({"orders": [1]}, brokers={1: ADDRESS, 2: OTHER})
        message.topics[0].partitions[0].leader_epoch = self.epoch
        return message

    def fetch(self, request: FetchRequest) -> FetchResponse:
        if not request.topics:
            raise Held
        ((topic,),) = (request.topics,)
        (wanted,) = topic.partitions
        self.fetches.append((wanted.fetch_offset, wanted.current_leader_epoch))
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error is ErrorCode.NONE and wanted.current_leader_epoch != self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error is ErrorCode.NONE and wanted.fetch_offset > self.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is ErrorCode.NONE and wanted.fetch_offset == self.end and self.preferred < 0:
            raise Held
        is_here = error is ErrorCode.NONE and self.preferred < 0
        part = PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=self.end,
            preferred_read_replica=self.preferred,
            records=b"".join(self.batches[wanted.fetch_offset :]) if is_here else b"",
        )
        found = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])
        return FetchResponse(responses=[found])

    def epoch_end(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        (wanted,) = request.topics[0].partitions
        end = self.ends.get(wanted.leader_epoch, self.end)
        found = EpochEndOffset(error_code=0, partition=0, leader_epoch=wanted.leader_epoch, end_offset=end)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[found])]
        )


class Reader:
    """A core, its driver, and what it has returned."""

    def __init__(self, brokers: dict[Address, LogBroker], **options: Any) -> None:
        self.driver = ManualDriver(dict(brokers))
        settings = ConsumerSettings(request_timeout_ms=1000, fetch_max_wait_ms=100, **options)
        engine = self.driver.attach(Engine(str(ADDRESS), settings.client(), self.driver))
        self.core = ConsumerCore(engine, settings, lambda: None, nullcontext())
        self.core.assign([PLACE])

    def read(self, count: int) -> list[int]:
        found: list[int] = []

        def has_all() -> bool:
            self.core.begin_poll()
            found.extend(int(record.value) for record in self.core.records.take_records())
            return len(found) >= count

        self.driver.run(has_all)
        return found


@pytest.fixture
def reading() -> Iterator[Callable[..., Reader]]:
    """Makes readers, and closes them at the end."""
    made: list[Reader] = []

    def make(brokers: dict[Address, LogBroker], **options: Any) -> Reader:
        made.append(Reader(brokers, **options))
        return made[-1]

    yield make
    for each in made:
        each.driver.close()


Making = Callable[..., Reader]


def test_the_position_is_validated_at_a_new_leader_and_goes_back_to_where_its_log_differs(
    reading: Making,
) -> None:
    broker = LogBroker()
    broker.append(6)
    reader = reading({ADDRESS: broker}, auto_offset_reset="latest")
    reader.core.seek(PLACE, 0)
    assert reader.read(6) == list(range(6))
    # The new leader has lost two of them, and has others in their place.
    del broker.batches[4:]
    broker.ends[0], broker.epoch = 4, 1
    broker.append(3)
    assert reader.read(3) == [4, 5, 6]
    assert reader.core.position(PLACE) == 7


def test_a_truncated_log_is_an_error_without_a_reset(reading: Making) -> None:
    broker = LogBroker()
    broker.append(6)
    reader = reading({ADDRESS: broker}, auto_offset_reset="none")
    reader.core.seek(PLACE, 0)
    assert reader.read(6) == list(range(6))
    del broker.batches[4:]
    broker.ends[0], broker.epoch = 4, 1
    with pytest.raises(LogTruncated, match="orders-0 was truncated to 4 while it was read up to 6") as caught:
        reader.read(1)
    assert (caught.value.position, caught.value.end_offset) == (6, 4)
    reader.core.seek(PLACE, 3)
    assert reader.read(1) == [3]


def test_a_new_leader_with_the_same_log_changes_nothing(reading: Making) -> None:
    broker = LogBroker()
    broker.append(2)
    reader = reading({ADDRESS: broker})
    reader.core.seek(PLACE, 0)
    assert reader.read(2) == [0, 1]
    broker.ends[0], broker.epoch = 2, 1
    broker.append(2)
    assert reader.read(2) == [2, 3]


def test_records_come_from_the_preferred_replica_until_it_fails(reading: Making) -> None:
    leader, follower = LogBroker(), LogBroker(2)
    leader.append(2)
    follower.append(2)
    leader.preferred = 2
    reader = reading({ADDRESS: leader, OTHER: follower}, client_rack="r")
    reader.core.seek(PLACE, 0)
    assert reader.read(2) == [0, 1]
    assert [offset for offset, _ in follower.fetches] == [0, 2]
    # The follower is behind: the leader decides.
    leader.preferred = -1
    leader.append(1)
    follower.errors = [ErrorCode.OFFSET_OUT_OF_RANGE] * 2
    assert reader.read(1) == [2]


def test_a_broker_that_vanishes_loses_no_record_and_returns_none_twice(reading: Making) -> None:
    broker = LogBroker()
    broker.append(3)
    reader = reading({ADDRESS: broker})
    reader.core.seek(PLACE, 0)
    assert reader.read(3) == [0, 1, 2]
    reader.driver.cut(ADDRESS)
    del reader.driver.servers[ADDRESS]
    broker.append(3)
    reader.driver.now += 5
    reader.driver.settle()
    reader.driver.servers[ADDRESS] = broker
    # And answers arrive a byte at a time.
    reader.driver.pieces = 1
    assert reader.read(3) == [3, 4, 5]


def test_errors_that_pass_are_retried_and_others_are_raised(reading: Making) -> None:
    broker = LogBroker()
    broker.append(1)
    broker.errors = [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]
    reader = reading({ADDRESS: broker})
    reader.core.seek(PLACE, 0)
    with pytest.raises(ErrorResponse) as caught:
        reader.read(1)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert reader.read(1) == [0]


def test_no_more_is_fetched_ahead_than_the_limit(reading: Making) -> None:
    broker = LogBroker()
    broker.append(100)
    reader = reading({ADDRESS: broker}, queued_max_messages_kbytes=1, max_poll_records=1)
    reader.core.seek(PLACE, 0)
    assert reader.read(1) == [0]
    # One response exceeds the limit; the next is requested when it is used up.
    assert len(broker.fetches) == 1
