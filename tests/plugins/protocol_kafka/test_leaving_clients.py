"""Clients that leave before they are answered: what they asked for is completed, unless it only waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio

from tests.plugins.protocol_kafka.apis.client import Client, Step
from tests.plugins.protocol_kafka.apis.topics import new_topic
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import keys
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity, TransactionState
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    END_TXN,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    PRODUCE,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

NAMES = ("flights", "gates", "pilots")
TRANSACTION = "orders"


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A running broker without topics."""
    async with running_broker(clock=FakeClock()) as broker:
        yield broker


async def leave_before(step: Step) -> bool:
    """Stop waiting for the answer at the first opportunity; whether the request took notice of it."""
    assert not isinstance(step, list)
    with trio.CancelScope() as left:
        left.cancel()
        await step
    return left.cancelled_caught


async def ask_and_leave(broker: Broker, api: Api, version: int, request: object) -> bool:
    return await leave_before(Client(broker).start(api, version, request))


async def test_create_topics_creates_all_topics_after_the_client_left(broker: Broker) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in NAMES
    ]
    await ask_and_leave(broker, CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics, timeout_ms=1000))
    assert sorted(topic.name for topic in broker.topics) == sorted(NAMES)


async def test_delete_topics_deletes_all_topics_after_the_client_left(broker: Broker) -> None:
    for name in NAMES:
        await new_topic(broker, name)
    request = DeleteTopicsRequest(topic_names=list(NAMES), timeout_ms=1000)
    await ask_and_leave(broker, DELETE_TOPICS, 5, request)
    assert len(broker.topics) == 0


async def test_create_partitions_grows_all_topics_after_the_client_left(broker: Broker) -> None:
    for name in NAMES:
        await new_topic(broker, name)
    topics = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=False)
    await ask_and_leave(broker, CREATE_PARTITIONS, 3, request)
    assert [len(broker.topics.get(name).partitions) for name in NAMES] == [3, 3, 3]


async def test_incremental_alter_configs_changes_all_topics_after_the_client_left(broker: Broker) -> None:
    resources: list[IncrementalAlterConfigsResource] = []
    for name in NAMES:
        await new_topic(broker, name)
        change = IncrementalAlterableConfig(name="flush.messages", config_operation=0, value="7")
        resources.append(
            IncrementalAlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
        )
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    await ask_and_leave(broker, INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert [broker.topics.get(name).config[keys.FLUSH_MESSAGES] for name in NAMES] == [7, 7, 7]


async def begun_transaction(broker: Broker) -> ProducerIdentity:
    await new_topic(broker)
    await broker.coordinator.prepare_transactions()
    # So that there is something to wait for.
    every = {"flush.messages": "1"}
    await broker.topics.alter_config("__transaction_state", lambda config: {**config, **every})
    return await broker.coordinator.transactions.init_producer_id(TRANSACTION, 60_000)


def transactional(producer: ProducerIdentity, acks: int) -> ProduceRequest:
    batch = make_batch(
        [b"value"],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=0, records=memoryview(batch))
    return ProduceRequest(
        transactional_id=TRANSACTION,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=NAMES[0], partition_data=[data])],
    )


@pytest.mark.parametrize("acks", [0, -1])
async def test_produce_adds_the_partition_to_the_transaction_after_the_client_left(
    broker: Broker, acks: int
) -> None:
    producer = await begun_transaction(broker)
    await ask_and_leave(broker, PRODUCE, 12, transactional(producer, acks))
    assert broker.topics.get(NAMES[0]).partitions[0].log.log_end_offset == 1


async def test_end_txn_writes_all_markers_after_the_client_left(broker: Broker) -> None:
    producer = await begun_transaction(broker)
    client = Client(broker)
    await client.ask(PRODUCE, 12, transactional(producer, -1))
    request = EndTxnRequest(
        transactional_id=TRANSACTION,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    await leave_before(client.start(END_TXN, 3, request))
    assert broker.topics.get(NAMES[0]).partitions[0].log.last_stable_offset == 2
    assert broker.coordinator.transactions.describe(TRANSACTION).state is TransactionState.COMPLETE_COMMIT


async def test_fetch_stops_waiting_when_the_client_leaves(broker: Broker) -> None:
    await new_topic(broker)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
    topics = [FetchTopic(topic=NAMES[0], partitions=[part])]
    request = FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=topics)
    assert await ask_and_leave(broker, FETCH, 11, request)
