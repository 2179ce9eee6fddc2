"""Leadership that goes and returns, as clients see it over a socket: the errors of Apache Kafka's broker.

A broker may lead nothing at all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place

from tests.plugins.protocol_kafka.apis.client import answer_in, framed
from tests.plugins.protocol_kafka.apis.topics import fill, new_topic
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import NotLeaderOrFollower
from tidelog.kernel.metadata import NO_LEADER, MetadataDelta
from tidelog.kernel.replica import Leadership
from tidelog.kernel.seams.events import Event, LeadershipChanged
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    DELETE_RECORDS,
    DESCRIBE_PRODUCERS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    WRITE_TXN_MARKERS,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.plugins.protocol_kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TOPIC = "flights"
NAME = TopicPartition(TOPIC, 0)
OTHER = 99
NOT_LEADER, FENCED, UNKNOWN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)
DEADLINE_S = 20

Ask = Callable[[Api, int, object], Awaitable[Any]]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncGenerator[Broker]:
    settings = {"storage": "file", "log.dirs": str(tmp_path), "coordinator": "classic"}
    async with running_broker(settings) as broker:
        fill(await new_topic(broker, TOPIC), 0, [3])
        yield broker


@pytest.fixture
async def ask(broker: Broker) -> AsyncGenerator[Ask]:
    """Exchanges a request for its response through a socket."""
    host, _, port = next(iter(broker.listeners.values())).rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:

        async def ask(api: Api, version: int, request: object) -> Any:
            await stream.send_all(framed(api, version, request))
            received = bytearray()
            while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
                received += await stream.receive_some()
            return answer_in(api, version, bytes(received))

        yield ask


async def lead(broker: Broker, leader_id: int, *, catch_up: bool = True) -> int:
    """Commit that a broker leads from now on; return the epoch."""
    topic = broker.image.topics[TOPIC]
    (before,) = topic.partitions
    led = before._replace(leader=leader_id, leader_epoch=before.leader_epoch + 1, isr=(leader_id,))
    await broker.metadata.commit(MetadataDelta.of_topics(attrs.evolve(topic, partitions=(led,))))
    if catch_up:
        await broker.publisher.catch_up()
    return led.leader_epoch


async def lose(broker: Broker) -> int:
    """Let another broker lead; return the epoch."""
    return await lead(broker, OTHER)


async def gain(broker: Broker) -> int:
    """Lead again; return the epoch."""
    return await lead(broker, broker.cluster.node_id)


async def produced(ask: Ask, acks: int = -1) -> Any:
    return (await answer_of_produce(ask, 9, acks)).responses[0].partition_responses[0]


async def answer_of_produce(ask: Ask, version: int, acks: int = -1) -> Any:
    data = PartitionProduceData(index=0, records=memoryview(make_batch([b"x"])))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])
    return await ask(PRODUCE, version, request)


async def fetched(
    ask: Ask, version: int = 12, epoch: int = -1, *, replica_id: int = -1, offset: int = 0, wait_ms: int = 0
) -> Any:
    asked = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1000
    )
    topics = [FetchTopic(topic=TOPIC, partitions=[asked])]
    request = FetchRequest(replica_id=replica_id, max_wait_ms=wait_ms, min_bytes=1, topics=topics)
    return (await ask(FETCH, version, request)).responses[0].partitions[0]


async def listed(ask: Ask, epoch: int = -1, *, replica_id: int = -1) -> Any:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    )
    return (await ask(LIST_OFFSETS, 7, request)).topics[0].partitions[0]


async def epoch_end(ask: Ask, epoch: int = -1) -> Any:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    return (await ask(OFFSET_FOR_LEADER_EPOCH, 4, request)).topics[0].partitions[0]


async def records_deleted(ask: Ask) -> Any:
    topics = [
        DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    ]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
    return (await ask(DELETE_RECORDS, 2, request)).topics[0].partitions[0]


async def marker_written(ask: Ask) -> Any:
    topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
    marker = WritableTxnMarker(
        producer_id=5, producer_epoch=0, transaction_result=False, topics=topics, coordinator_epoch=0
    )
    response = await ask(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]))
    return response.markers[0].topics[0].partitions[0]


ONLY_FOR_THE_LEADER: dict[str, Callable[[Ask], Awaitable[Any]]] = {
    "Produce": produced,
    "Fetch of a client before KIP-392": partial(fetched, version=10),
    "Fetch of a follower": partial(fetched, replica_id=3),
    "ListOffsets": listed,
    "OffsetForLeaderEpoch": epoch_end,
    "DeleteRecords": records_deleted,
    "WriteTxnMarkers": marker_written,
}


@pytest.mark.parametrize("request_of", ONLY_FOR_THE_LEADER.values(), ids=ONLY_FOR_THE_LEADER)
async def test_leadership_that_is_lost_is_an_error_until_it_returns(
    broker: Broker, ask: Ask, request_of: Callable[[Ask], Awaitable[Any]]
) -> None:
    await lose(broker)
    end = broker.replicas.get(*NAME).log.log_end_offset
    assert (await request_of(ask)).error_code == NOT_LEADER
    assert broker.replicas.get(*NAME).log.log_end_offset == end
    await gain(broker)
    assert (await request_of(ask)).error_code == 0


async def test_a_follower_answers_consumers_of_kip_392_and_tools_that_ask_any_replica(
    broker: Broker, ask: Ask
) -> None:
    await lose(broker)
    found = await fetched(ask, 12)
    assert (found.error_code, found.high_watermark) == (0, 3)
    assert found.records
    assert (await listed(ask, replica_id=-2)).error_code == 0
    request = DescribeProducersRequest(topics=[DescribeProducersTopic(name=TOPIC, partition_indexes=[0])])
    described = await ask(DESCRIBE_PRODUCERS, 0, request)
    assert described.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("request_of", [fetched, listed, epoch_end])
async def test_an_epoch_that_is_not_that_of_the_partition_is_fenced_or_unknown(
    broker: Broker, ask: Ask, request_of: Callable[..., Awaitable[Any]], leads: bool
) -> None:
    epoch = await lose(broker)
    if leads:
        epoch = await gain(broker)
    assert (await request_of(ask, epoch=epoch - 1)).error_code == FENCED
    assert (await request_of(ask, epoch=epoch + 1)).error_code == UNKNOWN


async def test_metadata_has_no_leader_while_a_broker_leads_that_is_not_there(
    broker: Broker, ask: Ask
) -> None:
    epoch = await lose(broker)
    (topic,) = (await ask(METADATA, 9, MetadataRequest(topics=None))).topics
    (found,) = topic.partitions
    assert (found.error_code, found.leader_id, found.leader_epoch) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        epoch,
    )
    epoch = await gain(broker)
    (topic,) = (await ask(METADATA, 9, MetadataRequest(topics=None))).topics
    (found,) = topic.partitions
    assert (found.error_code, found.leader_id, found.leader_epoch) == (0, broker.cluster.node_id, epoch)


@pytest.mark.parametrize(("version", "epoch"), [(10, -1), (12, 0)])
async def test_a_waiting_fetch_is_released_with_the_error_when_leadership_goes(
    broker: Broker, ask: Ask, version: int, epoch: int
) -> None:
    found: list[Any] = []

    async def fetch() -> None:
        found.append(await fetched(ask, version, epoch, offset=3, wait_ms=30_000))

    watermarks = broker.replicas.get(*NAME).log.watermarks
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            while not watermarks.waiters:
                await trio.lowlevel.checkpoint()
            await lose(broker)
    assert found[0].error_code == (NOT_LEADER if epoch < 0 else FENCED)


async def test_a_waiting_append_is_released_with_the_error_when_leadership_goes(
    broker: Broker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.replicas.get(*NAME).log
    answers: list[Any] = []

    async def produce() -> None:
        answers.append(await produced(ask))

    with monkeypatch.context() as patched, trio.fail_after(DEADLINE_S):
        # The flush that it waits for never begins.
        patched.setattr(log.commit, "flush_messages", 1)
        patched.setattr(type(log.commit), "begin", lambda commit: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            while log.log_end_offset == 3:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            await lose(broker)
    assert (answers[0].error_code, answers[0].base_offset) == (NOT_LEADER, -1)
    assert log.high_watermark == 3


async def test_apply_leadership_publishes_what_changed_once_and_ignores_what_is_old(broker: Broker) -> None:
    events: list[Event] = []
    broker.events.subscribe(events.append)
    partition = broker.replicas.get(*NAME)
    await lose(broker)
    broker.replicas.apply_leadership({NAME: Leadership(OTHER, 1)})
    broker.replicas.apply_leadership({NAME: Leadership(broker.cluster.node_id, 0)})
    broker.replicas.apply_leadership({TopicPartition("elsewhere", 0): Leadership(OTHER, 1)})
    assert events == [LeadershipChanged([partition])]
    assert not partition.is_leader


async def test_leadership_is_followed_though_no_request_caused_its_change(broker: Broker) -> None:
    changed = trio.Event()
    broker.events.subscribe(lambda event: changed.set())
    epoch = await lead(broker, OTHER, catch_up=False)
    with trio.fail_after(DEADLINE_S):
        await changed.wait()
    assert broker.replicas.get(*NAME).leadership == Leadership(OTHER, epoch, (OTHER,))


async def test_leadership_and_configuration_change_with_one_delta(broker: Broker) -> None:
    topic = broker.image.topics[TOPIC]
    (before,) = topic.partitions
    led = before._replace(leader=OTHER, leader_epoch=before.leader_epoch + 3)
    changed = attrs.evolve(topic, partitions=(led,) * 2, config={"max.message.bytes": "99"})
    await broker.metadata.commit(MetadataDelta.of_topics(changed))
    await broker.publisher.catch_up()
    followed = broker.topics.get(TOPIC)
    assert [partition.leadership[:2] for partition in followed.partitions] == [(OTHER, led.leader_epoch)] * 2
    assert {partition.log.config.max_message_bytes for partition in followed.partitions} == {99}
    for partition in followed.partitions:
        with pytest.raises(NotLeaderOrFollower):
            partition.log.append_as_leader(make_batch([b"x"]))


async def test_a_partition_that_failed_is_led_by_no_broker_and_stays_an_error_of_its_disk(
    broker: Broker, ask: Ask
) -> None:
    broker.replicas.take_offline([NAME], "a disk failed")
    await broker.metadata.fail_partitions([NAME])
    await broker.publisher.catch_up()
    partition = broker.replicas.find(*NAME)
    assert partition
    assert partition.leader_id == NO_LEADER
    for answer in (await produced(ask), await fetched(ask), await listed(ask)):
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_produce_of_kip_951_names_the_leader(broker: Broker, ask: Ask) -> None:
    epoch = await lose(broker)
    answer = await answer_of_produce(ask, 10)
    leader = answer.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch, answer.node_endpoints) == (OTHER, epoch, [])
    leader = (await produced(ask)).current_leader
    assert (leader.leader_id, leader.leader_epoch) == (-1, -1)


@pytest.mark.parametrize(("version", "named"), [(15, False), (16, True)])
async def test_fetch_of_kip_951_names_the_leader_of_an_epoch_that_is_known(
    broker: Broker, ask: Ask, version: int, named: bool
) -> None:
    await lose(broker)
    epoch = await gain(broker)
    topics = [
        FetchTopic(
            topic_id=broker.topics.get(TOPIC).topic_id.bytes,
            partitions=[
                FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=99)
            ],
        )
    ]
    answer = await ask(FETCH, version, FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))
    (found,) = answer.responses[0].partitions
    assert found.error_code == FENCED
    node_id = broker.cluster.node_id
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (
        (node_id, epoch) if named else (-1, -1)
    )
    own = broker.cluster.this_broker("PLAINTEXT")
    assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == (
        [(node_id, own.host, own.port)] if named else []
    )


def deliver(bootstrap: str, timeout_s: float) -> list[KafkaError | None]:
    """Produce one record; return the errors of what was delivered or given up."""
    outcomes: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "message.timeout.ms": round(timeout_s * 1000),
            "topic.metadata.refresh.fast.interval.ms": 10,
            "retry.backoff.ms": 10,
        }
    )
    producer.produce(TOPIC, b"late", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(timeout_s + DEADLINE_S)
    return outcomes


def consume(bootstrap: str, count: int) -> list[bytes | None]:
    """The values of the first records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([Place(TOPIC, 0, 0)])
    try:
        messages = consumer.consume(count, DEADLINE_S)
        return [message.value() for message in messages]
    finally:
        consumer.close()


async def test_confluent_kafka_waits_for_a_leader_and_produces_when_leadership_returns(
    broker: Broker,
) -> None:
    (bootstrap,) = broker.listeners.values()
    await lose(broker)
    (error,) = await trio.to_thread.run_sync(deliver, bootstrap, 1.0)
    assert error is not None
    assert broker.replicas.get(*NAME).log.log_end_offset == 3
    await gain(broker)
    assert await trio.to_thread.run_sync(deliver, bootstrap, float(DEADLINE_S)) == [None]
    assert await trio.to_thread.run_sync(consume, bootstrap, 4) == [b"value"] * 3 + [b"late"]
