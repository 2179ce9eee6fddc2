"""Brokers whose images say which of them leads: at the start, and by deltas, as clients of both see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from typing import Any, cast
from uuid import UUID

import attrs
import pytest
import trio
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place

from tests.plugins.protocol_kafka.apis.client import Client
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import NotCoordinator
from tidelog.kernel.metadata import (
    NO_LEADER,
    BrokerImage,
    MetadataDelta,
    PartitionImage,
    PersistentMap,
    TopicImage,
)
from tidelog.kernel.seams.coordination.offsets import OffsetFetch
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import new_broker
from tidelog.plugins.metadata_memory.store import MemoryMetadata
from tidelog.plugins.protocol_kafka.apis.slices import PARTITIONS_PER_SLICE
from tidelog.plugins.protocol_kafka.messages.api import FETCH, FIND_COORDINATOR, METADATA, PRODUCE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
)
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    GROUP_KEY,
    TRANSACTION_KEY,
    FindCoordinatorRequest,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TOPIC, OFFSETS, TRANSACTIONS = "flights", "__consumer_offsets", "__transaction_state"
IDS = {TOPIC: UUID(int=7), OFFSETS: UUID(int=8), TRANSACTIONS: UUID(int=9)}
FIRST, SECOND = 1, 2
DEADLINE_S = 20


def led_by(leader_id: int, epoch: int) -> list[TopicImage]:
    """All topics, of which one broker leads every partition."""
    partition = PartitionImage(epoch, leader_id, (FIRST, SECOND), (FIRST, SECOND))
    return [TopicImage(name, topic_id, (partition,) * 2) for name, topic_id in IDS.items()]


async def lead(brokers: Sequence[Broker], leader_id: int, epoch: int) -> None:
    """Let a broker lead from now on, as both brokers see it."""
    for broker in brokers:
        await broker.metadata.commit(MetadataDelta.of_topics(*led_by(leader_id, epoch)))
        await broker.publisher.catch_up()


@pytest.fixture
async def brokers() -> AsyncGenerator[list[Broker]]:
    """Two brokers with the same topics, all of which the second one leads; each knows the other one."""
    async with AsyncExitStack() as stack:
        brokers: list[Broker] = []
        for node_id in (FIRST, SECOND):
            broker = new_broker({"node.id": node_id, "coordinator": "classic"})
            metadata = cast("MemoryMetadata", broker.metadata)
            topics = PersistentMap({topic.name: topic for topic in led_by(SECOND, 4)})
            metadata.image = attrs.evolve(metadata.image, topics=topics)
            brokers.append(await stack.enter_async_context(broker.running()))
        known = {broker.cluster.node_id: BrokerImage(1, addresses(broker)) for broker in brokers}
        for broker in brokers:
            await broker.metadata.commit(MetadataDelta(brokers=known))
        yield brokers


def addresses(broker: Broker) -> dict[str, tuple[str, int]]:
    own = broker.cluster.this_broker("PLAINTEXT")
    return {"PLAINTEXT": (own.host, own.port)}


async def produced(broker: Broker, partitions: int) -> Any:
    """The answer to a produce request of the last version that names topics."""
    data = [
        PartitionProduceData(index=index % 2, records=memoryview(make_batch([b"x"])))
        for index in range(partitions)
    ]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
    )
    return await Client(broker).ask(PRODUCE, 12, request)


async def fetched(broker: Broker) -> Any:
    """The answer to a fetch of the other replica, which only the leader serves."""
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic_id=IDS[TOPIC].bytes, partitions=[asked])]
    replica = FetchReplicaState(replica_id=SECOND)
    request = FetchRequest(replica_state=replica, max_wait_ms=0, min_bytes=1, topics=topics)
    return await Client(broker).ask(FETCH, 16, request)


async def test_a_broker_that_leads_nothing_names_the_leader_and_gets_leadership_by_a_delta(
    brokers: list[Broker],
) -> None:
    first, second = brokers
    assert not any(partition.is_leader for partition in first.replicas)
    assert all(partition.is_leader for partition in second.replicas)
    endpoint = (SECOND, *addresses(second)["PLAINTEXT"])
    for answer, name in (
        (await produced(first, 2), "partition_responses"),
        (await fetched(first), "partitions"),
    ):
        for part in getattr(answer.responses[0], name):
            assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (SECOND, 4)
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [endpoint]
    described = await Client(first).ask(METADATA, 12, MetadataRequest(topics=None))
    assert {broker.node_id for broker in described.brokers} == {FIRST, SECOND}
    parts = [part for topic in described.topics for part in topic.partitions]
    assert [(part.error_code, part.leader_id, part.leader_epoch) for part in parts] == [(0, SECOND, 4)] * 6
    with pytest.raises(NotCoordinator):
        first.coordinator.offsets.fetch(OffsetFetch("group", None))
    await lead(brokers, FIRST, 5)
    assert all(partition.is_leader for partition in first.replicas)
    assert not any(partition.is_leader for partition in second.replicas)
    assert first.coordinator.offsets.fetch(OffsetFetch("group", None)) == {}
    with pytest.raises(NotCoordinator):
        second.coordinator.offsets.fetch(OffsetFetch("group", None))
    answer = await produced(first, 2)
    assert [part.error_code for part in answer.responses[0].partition_responses] == [0, 0]
    assert answer.node_endpoints == []


async def test_produce_in_slices_names_the_leader_once(brokers: list[Broker]) -> None:
    answer = await produced(brokers[0], PARTITIONS_PER_SLICE + 1)
    parts = answer.responses[0].partition_responses
    assert {part.current_leader.leader_id for part in parts} == {SECOND}
    assert [each.node_id for each in answer.node_endpoints] == [SECOND]


@pytest.mark.parametrize("key_type", [GROUP_KEY, TRANSACTION_KEY])
async def test_find_coordinator_names_the_broker_that_leads_the_partition(
    brokers: list[Broker], key_type: int
) -> None:
    first, second = brokers
    asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["key", "other"])

    async def found() -> list[tuple[int, int, int]]:
        answer = await Client(first).ask(FIND_COORDINATOR, 4, asked)
        return [(each.error_code, each.node_id, each.port) for each in answer.coordinators]

    assert await found() == [(0, SECOND, addresses(second)["PLAINTEXT"][1])] * 2
    await lead(brokers, FIRST, 5)
    assert await found() == [(0, FIRST, addresses(first)["PLAINTEXT"][1])] * 2
    await lead(brokers, NO_LEADER, 6)
    assert await found() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)] * 2


async def test_fetch_of_a_session_names_the_leader(brokers: list[Broker]) -> None:
    first, second = brokers
    await lead(brokers, FIRST, 5)
    client = Client(first)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic_id=IDS[TOPIC].bytes, partitions=[asked])]
    replica = FetchReplicaState(replica_id=SECOND)
    opening = FetchRequest(replica_state=replica, max_wait_ms=0, min_bytes=1, session_epoch=0, topics=topics)
    session_id = (await client.ask(FETCH, 16, opening)).session_id
    await lead(brokers, SECOND, 6)
    next_one = FetchRequest(
        replica_state=replica, max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=1, topics=[]
    )
    answer = await client.ask(FETCH, 16, next_one)
    (found,) = answer.responses[0].partitions
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (SECOND, 6)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [
        (SECOND, addresses(second)["PLAINTEXT"][1])
    ]


def deliver(producer: Producer, value: bytes) -> list[KafkaError | None]:
    """Produce one record; the errors of what was delivered."""
    outcomes: list[KafkaError | None] = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(DEADLINE_S)
    return outcomes


def consume(bootstrap: str, count: int) -> list[bytes | None]:
    """The values of the first records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([Place(TOPIC, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


async def test_confluent_kafka_follows_leadership_from_one_broker_to_the_other_and_back(
    brokers: list[Broker],
) -> None:
    first, second = brokers
    (bootstrap,) = first.listeners.values()
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": DEADLINE_S * 1000})
    for number, (leader, other) in enumerate([(second, first), (first, second), (second, first)]):
        await lead(brokers, leader.cluster.node_id, 5 + number)
        before = other.replicas.get(TOPIC, 0).log.log_end_offset
        value = b"%d" % number
        assert await trio.to_thread.run_sync(deliver, producer, value) == [None]
        assert other.replicas.get(TOPIC, 0).log.log_end_offset == before
    ends = [broker.replicas.get(TOPIC, 0).log.log_end_offset for broker in brokers]
    assert ends == [1, 2]
    assert await trio.to_thread.run_sync(consume, bootstrap, 2) == [b"0", b"2"]
