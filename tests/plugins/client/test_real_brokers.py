"""Both drivers against tidelog and against Apache Kafka: the same calls, the same answers."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.plugins.client.driven import Driven, trio_driven
from tidelog.kernel.records import stamp_offset
from tidelog.plugins.client import (
    CreatedTopic,
    FetchLimits,
    FoundOffset,
    NewRecord,
    NewTopic,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.client.batches import ProducerStamp, build_batch
from tidelog.plugins.client.errors import ErrorResponse, UnsupportedByBroker
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import DELETE_TOPICS, FETCH, LIST_OFFSETS, METADATA, PRODUCE
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

DAY_MS = 86_400_000
BATCHES_V2_SINCE = {PRODUCE: 3, FETCH: 4}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def new_topic(client: Driven, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
    name = f"t-{uuid.uuid4()}"
    outcomes = await client.call("create_topics", [NewTopic(name, partitions, config=configs or {})])
    assert isinstance(or_raise(outcomes)[name], CreatedTopic)
    await there(client, [TopicPartition(name, index) for index in range(partitions)])
    return name


async def there(client: Driven, partitions: list[TopicPartition]) -> None:
    """Wait until the broker has heard of a new topic from its controller: Apache Kafka takes a while."""
    with trio.fail_after(DEADLINE_S):
        while True:
            outcomes = (await client.call("list_offsets", partitions)).values()
            if all(isinstance(outcome, FoundOffset) for outcome in outcomes):
                return


async def test_a_topic_lives_from_creation_to_deletion(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        name = await new_topic(client, 3)
        topic = (await client.call("metadata", [name])).topics[name]
        assert [(part.index, part.leader, part.replicas, part.isr) for part in topic.partitions] == [
            (index, 1, (1,), (1,)) for index in range(3)
        ]
        assert topic.topic_id.int != 0
        again = await client.call("create_topics", [NewTopic(name)])
        assert again[name].code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await client.call("delete_topics", [name]) == {name: None}
        gone = await client.call("delete_topics", [name])
        assert gone[name].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_s_own_configuration_is_told(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        name = await new_topic(client, 1, {"max.message.bytes": "1000"})
        values = or_raise(await client.call("describe_configs", [name]))[name]
    assert [(value.name, value.value) for value in values if value.is_own] == [("max.message.bytes", "1000")]


async def test_each_topic_of_a_request_has_its_own_outcome(connect: Any, real_broker: str) -> None:
    good, colliding = f"good-{uuid.uuid4()}", f"x.{uuid.uuid4()}"
    async with connect(real_broker) as client:
        await client.call("create_topics", [NewTopic(colliding)])
        outcomes = await client.call(
            "create_topics",
            [
                NewTopic(good, 2),
                NewTopic("a/b"),
                NewTopic(f"{good}-replicated", 1, 3),
                NewTopic(f"{good}-configured", config={"max.message.bytes": "many"}),
                NewTopic(colliding.replace(".", "_")),
            ],
            validate_only=True,
        )
        assert outcomes[good].partitions == 2
        codes = [outcome.code for outcome in outcomes.values() if isinstance(outcome, ErrorResponse)]
        assert codes == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]
        assert good not in (await client.call("metadata")).topics


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_records_come_back_as_they_were_produced(
    connect: Any, real_broker: str, compression: str
) -> None:
    start = now_ms() - DAY_MS
    records = [
        NewRecord(b"v%d" % index * index, b"key", [("h", None), ("h", b"x")], start + index)
        for index in range(50)
    ]
    records.append(NewRecord(None, None, (), start + 50))
    async with connect(real_broker) as client:
        partition = TopicPartition(await new_topic(client, 2), 1)
        first = await client.call("produce", partition, records, compression=compression)
        second = await client.call("produce", partition, records, compression=compression)
        assert (first.base_offset, second.base_offset) == (0, 51)
        seen = await client.read(partition, 0)
        assert [record.offset for record in seen] == list(range(102))
        assert [(r.value, r.key, list(r.headers), r.timestamp) for r in seen[51:]] == [
            (r.value, r.key, list(r.headers), r.timestamp) for r in records
        ]
        assert [record.offset for record in await client.read(partition, 49, 53)] == [49, 50, 51, 52]


async def test_a_long_partition_is_read_in_many_answers(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        partition = TopicPartition(await new_topic(client), 0)
        for _ in range(20):
            await client.call("produce", partition, [NewRecord(bytes(10_000))] * 10)
        limits = FetchLimits(max_bytes=150_000)
        assert [record.offset for record in await client.read(partition, 5, None, limits)] == list(
            range(5, 200)
        )
        committed = FetchLimits(read_committed=True)
        assert len(await client.read(partition, 0, None, committed)) == 200


async def test_list_offsets_finds_offsets_by_timestamp(connect: Any, real_broker: str) -> None:
    start = now_ms() - DAY_MS
    async with connect(real_broker) as client:
        name = await new_topic(client, 2)
        partition, empty = TopicPartition(name, 0), TopicPartition(name, 1)
        for index in range(5):
            await client.call("produce", partition, [NewRecord(b"x", timestamp=start + index * 10)] * 2)

        async def found(timestamp: int) -> list[tuple[int, int]]:
            outcomes = or_raise(await client.call("list_offsets", [partition, empty], timestamp))
            return [(outcomes[each].offset, outcomes[each].timestamp) for each in (partition, empty)]

        assert await found(EARLIEST_TIMESTAMP) == [(0, -1), (0, -1)]
        assert await found(LATEST_TIMESTAMP) == [(10, -1), (0, -1)]
        assert await found(start + 11) == [(4, start + 20), (-1, -1)]
        assert await found(start + 41) == [(-1, -1), (-1, -1)]
        assert await found(MAX_TIMESTAMP) == [(8, start + 40), (-1, -1)]


async def test_an_idempotent_producer_appends_a_repeated_batch_once(connect: Any, real_broker: str) -> None:
    records = [NewRecord(b"a"), NewRecord(b"b")]
    async with connect(real_broker) as client:
        partition = TopicPartition(await new_topic(client), 0)
        producer = await client.call("init_producer")
        first = await client.call("produce", partition, records, producer=producer)
        producer.appended(partition, -2)
        repeated = await client.call("produce", partition, records, producer=producer)
        following = await client.call("produce", partition, records, producer=producer)
        assert (first.base_offset, repeated.base_offset, following.base_offset) == (0, 0, 2)
        producer.appended(partition, 5)
        with pytest.raises(ErrorResponse, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await client.call("produce", partition, records, producer=producer)


async def test_what_the_log_does_not_take_is_told(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        partition = TopicPartition(await new_topic(client, 1, {"max.message.bytes": "1000"}), 0)
        with pytest.raises(ErrorResponse, match="MESSAGE_TOO_LARGE"):
            await client.call("produce", partition, [NewRecord(bytes(2000))])
        with pytest.raises(ErrorResponse, match="OFFSET_OUT_OF_RANGE"):
            await client.call("fetch", partition, 1)
        with pytest.raises(ErrorResponse, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await client.call("fetch", TopicPartition(partition.topic, 7), 0)
        with pytest.raises(ErrorResponse, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await client.call("produce", TopicPartition(partition.topic, 7), [NewRecord(b"x")])


async def test_produce_waits_for_a_topic_that_the_broker_creates(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        partition = TopicPartition(f"created-{uuid.uuid4()}", 0)
        written = await client.call("produce", partition, [NewRecord(b"first")])
        assert written.base_offset == 0


async def test_produce_with_acks_0_appends_the_record(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        partition = TopicPartition(await new_topic(client), 0)
        await client.call("produce", partition, [NewRecord(b"quiet")], acks=0)
        waiting = FetchLimits(max_wait_ms=3000)
        assert [record.value for record in await client.read(partition, 0, 1, waiting)] == [b"quiet"]


async def test_fetch_without_new_records_waits_for_max_wait_ms(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        partition = TopicPartition(await new_topic(client), 0)
        begun = time.monotonic()
        fetched = await client.call("fetch", partition, 0, FetchLimits(max_wait_ms=300))
        assert time.monotonic() - begun >= 0.3
        assert not fetched.data


def served_versions() -> list[Any]:
    return [
        pytest.param(api, version, id=f"{api.name}-{version}")
        for api in (PRODUCE, FETCH, LIST_OFFSETS, METADATA)
        for version in range(BATCHES_V2_SINCE.get(api, 0), api.newest_stable + 1)
    ]


def batch() -> memoryview:
    made = build_batch([NewRecord(b"v")], now_ms=now_ms(), stamp=ProducerStamp())
    stamp_offset(made, 0, 0)
    return memoryview(made)


def request_of(api: Any, topic: str, topic_id: bytes) -> Any:
    if api is PRODUCE:
        part = PartitionProduceData(index=0, records=batch())
        data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])
        return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
    if api is FETCH:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
        fetched = FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])
        return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[fetched])
    if api is LIST_OFFSETS:
        asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def verdict_of(api: Any, answer: Any) -> Any:
    if api is PRODUCE:
        return answer.responses[0].partition_responses[0].error_code
    if api is FETCH:
        part = answer.responses[0].partitions[0]
        return part.error_code if part.records else "no records"
    if api is LIST_OFFSETS:
        part = answer.topics[0].partitions[0]
        return part.error_code if part.offset > 0 or part.old_style_offsets else "no offset"
    return answer.topics[0].error_code


@pytest.fixture
def is_kafka(request: pytest.FixtureRequest) -> bool:
    """Whether the broker is Apache Kafka, which has dropped some old versions."""
    return bool(request.node.callspec.params["real_broker"] == "kafka")


@pytest.fixture(scope="module")
def topics_by_broker() -> dict[str, tuple[str, bytes]]:
    """One topic with records per broker, for all versions."""
    return {}


@pytest.mark.parametrize(("api", "version"), served_versions())
async def test_request_succeeds_in_every_version_of_produce_fetch_list_offsets_and_metadata(
    real_broker: str, is_kafka: bool, topics_by_broker: dict[str, tuple[str, bytes]], api: Any, version: int
) -> None:
    async with trio_driven(real_broker) as client:
        if real_broker not in topics_by_broker:
            name = await new_topic(client)
            await client.call("produce", TopicPartition(name, 0), [NewRecord(b"first")])
            told = (await client.call("metadata", [name])).topics[name]
            topics_by_broker[real_broker] = name, told.topic_id.bytes
        name, topic_id = topics_by_broker[real_broker]
        try:
            answer = await client.call("request", request_of(api, name, topic_id), at_most=version)
        except UnsupportedByBroker:
            assert (is_kafka, api, version) == (True, LIST_OFFSETS, 0)
            return
        assert verdict_of(api, answer) == 0


@pytest.mark.parametrize("version", range(DELETE_TOPICS.newest_stable + 1))
async def test_create_topics_and_delete_topics_in_every_version(
    real_broker: str, is_kafka: bool, version: int
) -> None:
    name = f"v{version}-{uuid.uuid4()}"
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])

    def deletion(spoken: int) -> DeleteTopicsRequest:
        if spoken >= 6:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)

    async with trio_driven(real_broker) as client:
        try:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
            created = await client.call("request", request, at_most=version)
            deleted = await client.call("request", ByVersion(DELETE_TOPICS, deletion), at_most=version)
        except UnsupportedByBroker:
            assert is_kafka
            assert version < 2
            return
    assert [result.error_code for result in created.topics] == [0]
    assert [result.error_code for result in deleted.responses] == [0]
