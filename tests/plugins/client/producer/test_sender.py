"""The sender by single events, with brokers and a clock that the test has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.plugins.client.producer.fake_cluster import NODES, FakeCluster, FakeProducer
from tests.tables import for_each
from tidelog.client import AsyncDelivery
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.message_set import iter_messages
from tidelog.kernel.records.stored import parse_stored
from tidelog.plugins.client.errors import (
    BrokerUnreachable,
    DeliveryTimedOut,
    ErrorResponse,
    QueueFull,
    RecordDropped,
    RequestTimedOut,
    UnsupportedByBroker,
)


@pytest.fixture
def clusters() -> Iterator[list[FakeCluster]]:
    made: list[FakeCluster] = []
    yield made
    for cluster in made:
        cluster.driver.close()


def values(producer: FakeProducer, partition: int = 0) -> list[bytes]:
    return producer.cluster.partitions[partition].values


def asked(producer: FakeProducer) -> int:
    """How many requests the brokers got."""
    nodes: list[Any] = list(producer.driver.servers.values())
    return sum(len(node.asked) for node in nodes)


def producing(
    clusters: list[FakeCluster], *faults: str, newest_produce: int = 13, **options: Any
) -> FakeProducer:
    clusters.append(FakeCluster(2, iter(faults), newest_produce=newest_produce))
    producer = FakeProducer(clusters[-1], **options)
    producer.send(b"first")
    producer.flush()
    assert values(producer) == [b"first"]
    return producer


def test_a_batch_is_sent_at_once_and_grows_while_another_is_on_its_way(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters)
    for number in range(100):
        producer.send(b"%d" % number)
        if number == 0:
            producer.core.sender.pump()
    producer.flush()
    assert producer.cluster.partitions[0].batches == [1, 1, 99]
    assert producer.driver.now == 1000.0


def test_a_batch_lingers_for_its_time_unless_it_is_full(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, linger_ms=50, batch_num_messages=10)
    for _ in range(3):
        producer.send(b"x")
    producer.advance(0.04)
    assert len(values(producer)) == 1
    producer.advance(0.02)
    assert len(values(producer)) == 4
    for _ in range(11):
        producer.send(b"x")
    producer.settle()
    assert producer.cluster.partitions[0].batches == [1, 3, 10]


def test_partitions_of_one_leader_share_a_request(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters)
    producer.send(b"x", 0)
    producer.send(b"y", 1)
    producer.flush()
    assert len(producer.cluster.requests) == 2
    assert len(producer.cluster.requests[1].topic_data[0].partition_data) == 2


def test_a_batch_goes_to_the_leader_that_an_answer_names_without_a_pause(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, "", "hint")
    requests = asked(producer)
    delivery = producer.send(b"x")
    producer.flush()
    assert delivery.result().offset == 1
    assert producer.driver.now == 1000.0
    assert asked(producer) - requests == 2


def test_without_that_the_leader_is_looked_up_after_a_pause(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, "", "move")
    delivery = producer.send(b"x")
    producer.flush()
    assert delivery.result().offset == 1
    assert 1000.05 < producer.driver.now < 1000.2


def test_a_record_fails_at_its_deadline_and_says_if_it_may_be_in_the_log(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, "", "silent", delivery_timeout_ms=5000, request_timeout_ms=30_000)
    sent, queued = producer.send(b"x"), None
    producer.settle()
    queued = producer.send(b"y")
    producer.run(lambda: sent.done() and queued.done())
    assert producer.driver.now == 1005.0
    first, second = sent.exception(), queued.exception()
    assert isinstance(first, DeliveryTimedOut)
    assert first.reached_broker
    assert isinstance(second, DeliveryTimedOut)
    assert not second.reached_broker
    producer.advance(60.0)
    assert values(producer) == [b"first", b"x"]
    assert producer.send(b"z").done() is False
    producer.flush()
    assert values(producer) == [b"first", b"x", b"z"]


def test_parts_of_a_batch_come_after_those_that_were_sent_before(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, "", "refuse", "large", batch_num_messages=4)
    sent = [producer.send(b"%d" % number) for number in range(8)]
    producer.flush()
    assert values(producer) == [b"first", *(b"%d" % number for number in range(8))]
    assert [delivery.result().offset for delivery in sent] == list(range(1, 9))
    assert producer.cluster.partitions[0].batches == [1, 4, 2, 2]


def test_a_producer_that_the_broker_has_forgotten_continues_with_a_new_epoch(
    clusters: list[FakeCluster],
) -> None:
    producer = producing(clusters, "", "forget")
    delivery = producer.send(b"x")
    producer.flush()
    assert delivery.result().offset == 1
    assert producer.cluster.partitions[0].producer == (101, 1)


def test_a_broker_that_vanishes_is_followed_to_the_next_leader(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters)
    producer.driver.servers.pop(NODES[1])
    producer.driver.cut(NODES[1])
    delivery = producer.send(b"x")
    producer.advance(1.0)
    assert not delivery.done()
    producer.cluster.move(producer.cluster.partitions[0])
    producer.flush()
    assert delivery.result().offset == 1


def test_a_leader_that_is_a_lie_is_asked_until_the_deadline(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, delivery_timeout_ms=3000)
    part = producer.cluster.partitions[0]
    producer.cluster.move(part)
    for node in producer.driver.servers.values():
        answers: dict[str, Any] = node.answers  # type: ignore[attr-defined]
        stale = FakeCluster(2)
        clusters.append(stale)
        answers["Metadata"] = stale.metadata
    delivery = producer.send(b"x")
    producer.run(delivery.done)
    error = delivery.exception()
    assert isinstance(error, DeliveryTimedOut)
    assert isinstance(error.last_error, ErrorResponse)
    assert producer.driver.now == 1003.0


def test_a_full_queue_raises_or_drops_the_oldest_records(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, queue_buffering_max_messages=3, linger_ms=100, when_full="raise")
    for _ in range(3):
        producer.send(b"x")
    with pytest.raises(QueueFull, match="3 records"):
        producer.send(b"y")
    producer.flush()
    producer.send(b"y")
    producer.flush()
    assert values(producer) == [b"first", b"x", b"x", b"x", b"y"]

    producer = producing(clusters, queue_buffering_max_messages=3, linger_ms=100, when_full="drop_oldest")
    called: list[Any] = []
    sent = [producer.send(b"%d" % number) for number in range(2)]
    producer.core.add_callback(sent[0], called.append)
    event: Any = sent[0].batch.waiter()
    sent += [producer.send(b"%d" % number) for number in range(2, 8)]
    assert event.is_set
    producer.flush()
    assert [type(delivery.outcome()) for delivery in sent[:5]] == [RecordDropped] * 5
    assert [delivery.result().offset for delivery in sent[5:]] == [1, 2, 3]
    assert values(producer) == [b"first", b"5", b"6", b"7"]
    assert [args for _, args in producer.core.take_calls()] == [(sent[0],)]


def test_records_that_wait_for_metadata_are_dropped_too(clusters: list[FakeCluster]) -> None:
    clusters.append(FakeCluster(2))
    producer = FakeProducer(clusters[-1], queue_buffering_max_messages=2, when_full="drop_oldest")
    sent = [producer.send(b"%d" % number) for number in range(5)]
    producer.flush()
    assert values(producer) == [b"3", b"4"]
    assert [delivery.exception() is None for delivery in sent] == [False, False, False, True, True]


def test_a_broker_without_producer_ids_ends_idempotence_unless_it_is_wanted(
    clusters: list[FakeCluster],
) -> None:
    for enable in (None, True):
        clusters.append(FakeCluster(2))
        clusters[-1].ranges.pop(22)
        producer = FakeProducer(clusters[-1], enable_idempotence=enable)
        delivery = producer.send(b"x")
        producer.run(delivery.done)
        if enable:
            assert isinstance(delivery.exception(), UnsupportedByBroker)
        else:
            assert delivery.result().offset == 0


def test_records_fail_without_a_broker_when_their_topic_is_not_found_in_time(
    clusters: list[FakeCluster],
) -> None:
    clusters.append(FakeCluster(2))
    clusters[-1].driver.servers.clear()
    producer = FakeProducer(clusters[-1], max_block_ms=5000)
    delivery = producer.send(b"x")
    producer.run(delivery.done)
    error = delivery.exception()
    assert isinstance(error, RequestTimedOut)
    assert isinstance(error.last_error, BrokerUnreachable)
    assert 1005.0 <= producer.driver.now < 1007.0


@for_each("compression", ("none", "gzip", "snappy", "lz4"))
@for_each("version", (0, 2))
def test_old_versions_of_produce_have_message_sets(
    clusters: list[FakeCluster], version: int, compression: str
) -> None:
    clusters.append(FakeCluster(1, newest_produce=version))
    cluster = clusters[-1]
    found: list[Any] = []

    def append(_node: int, _part: object, data: memoryview, _fault: str) -> tuple[int, int]:
        while data:
            header = parse_stored(data)
            found.extend(iter_messages(data[: header.size], header))
            data = data[header.size :]
        return 0, 0

    cluster.append_data = append  # type: ignore[method-assign, assignment]  # pyright: ignore
    producer = FakeProducer(cluster, compression_type=compression, enable_idempotence=False, linger_ms=1)
    sent = [producer.send(b"%d" % number, key=b"k") for number in range(3)]
    producer.flush()
    assert [delivery.exception() for delivery in sent] == [None] * 3
    assert [(message.key, message.value) for message in found] == [(b"k", b"%d" % n) for n in range(3)]
    assert [message.timestamp for message in found] == [
        -1 if version == 0 else delivery.timestamp_ms for delivery in sent
    ]


def test_a_batch_has_what_was_settled(clusters: list[FakeCluster]) -> None:
    producer = producing(clusters, compression_type="lz4", acks="all")
    request = producer.cluster.requests[0]
    header = parse_header(request.topic_data[0].partition_data[0].records or b"")
    assert (request.acks, request.timeout_ms, header.codec) == (-1, 30_000, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (101, 0, 0)


def test_the_first_batch_of_a_partition_is_acknowledged_before_the_next_is_sent(
    clusters: list[FakeCluster],
) -> None:
    clusters.append(FakeCluster(1, ["refuse"]))
    producer = FakeProducer(clusters[-1], batch_num_messages=2)
    for number in range(6):
        producer.send(b"%d" % number)
    producer.flush()
    assert values(producer) == [b"%d" % number for number in range(6)]


def test_a_record_that_cannot_be_placed_once_its_topic_is_known_calls_back(
    clusters: list[FakeCluster],
) -> None:
    clusters.append(FakeCluster(2))
    producer = FakeProducer(clusters[-1])
    seen: list[AsyncDelivery] = []
    producer.core.add_callback(producer.send(b"x", partition=7), seen.append)
    producer.settle()
    # The driver calls them, without another record or the end of the producer.
    producer.core.call_all(producer.core.take_calls())
    assert "there is no 7" in str(seen[0].exception())
