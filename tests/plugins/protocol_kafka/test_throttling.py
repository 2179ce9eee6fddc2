"""Quotas as clients see them: throttle times, muted connections, and responses without records."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.broker import Broker
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.seams.requests import Phase, Request, RequestStage
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis import heartbeat, produce
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    HEARTBEAT,
    METADATA,
    PRODUCE,
    WRITE_TXN_MARKERS,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.plugins.protocol_kafka.routes import Routes

from .apis.client import Client, framed

VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
RECORDS = make_batch([b"x" * 1000])
TINY = 1e-9
LENGTH_BYTES = 4


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    autojump_clock.autojump_threshold = 0.005
    return autojump_clock


async def set_quotas(broker: Broker, client_id: str = "tests", /, **values: float | None) -> None:
    entity: QuotaEntity = frozenset({("client-id", client_id)})
    refused = await broker.controller.alter_client_quotas({entity: values})
    assert not refused


@asynccontextmanager
async def limited_broker(**values: float | None) -> AsyncGenerator[tuple[Broker, Client]]:
    """A broker whose client `tests` has quotas, with a topic `t`."""
    async with running_broker({"num.partitions": 3}) as broker:
        await broker.topics.ensure("t")
        await set_quotas(broker, **values)
        yield broker, Client(broker)


def batches(acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(bytearray(RECORDS)))
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )


def fetch(offset: int = 0, **fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    defaults = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 30, "session_epoch": -1}
    values: dict[str, Any] = {"topics": topics, **defaults, **fields}
    return FetchRequest(**values)


async def next_answer_after(client: Client) -> float:
    """For how many seconds the next request waits."""
    before = trio.current_time()
    await client.ask(API_VERSIONS, 3, VERSIONS)
    return trio.current_time() - before


async def fill(broker: Broker, batches: int) -> None:
    for _ in range(batches):
        (await broker.topics.ensure("t")).partitions[0].log.append_as_leader(memoryview(bytearray(RECORDS)))


def test_without_quotas_a_handler_is_the_handler_itself() -> None:
    routes = Routes(BUILT_IN)
    assert routes[PRODUCE.key, 9].handle is produce.handle
    assert routes[HEARTBEAT.key, 4].handle is heartbeat.handle


async def test_quotas_are_around_handlers_only_while_there_are_any() -> None:
    async with limited_broker() as (broker, client):
        await client.ask(PRODUCE, 9, batches())
        handlers = client.routes
        assert handlers[PRODUCE.key, 9].handle is produce.handle
        await set_quotas(broker, producer_byte_rate=1e9)
        assert handlers[PRODUCE.key, 9].handle is not produce.handle
        # A quota of bytes is nothing to requests without records.
        assert handlers[HEARTBEAT.key, 4].handle is heartbeat.handle
        await set_quotas(broker, request_percentage=100.0)
        assert handlers[HEARTBEAT.key, 4].handle is not heartbeat.handle
        await set_quotas(broker, request_percentage=None, producer_byte_rate=None)
        assert handlers[PRODUCE.key, 9].handle is produce.handle
        assert handlers[HEARTBEAT.key, 4].handle is heartbeat.handle


async def test_produce_counts_its_bytes_and_mutes_the_connection(clock: MockClock) -> None:
    size = len(framed(PRODUCE, 9, batches())) - LENGTH_BYTES
    async with limited_broker(producer_byte_rate=100) as (broker, client):
        # Ten seconds of 100 bytes a second, less one byte more than the request has.
        answer = await client.ask(PRODUCE, 9, batches())
        assert answer.throttle_time_ms == round((size - 1000) / 100 * 1000)
        # It was appended all the same.
        assert answer.responses[0].partition_responses[0].base_offset == 0
        assert await next_answer_after(Client(broker)) < 0.1
        assert await next_answer_after(client) == pytest.approx(answer.throttle_time_ms / 1000, abs=0.1)
        assert await next_answer_after(client) < 0.1


async def send_without_acks(client: Client) -> None:
    step = client.start(PRODUCE, 9, batches(acks=0))
    assert (step if isinstance(step, list) else await step) == []


async def test_produce_without_acks_mutes_the_connection_without_a_response(clock: MockClock) -> None:
    async with limited_broker(producer_byte_rate=100) as (broker, client):
        await send_without_acks(client)
        assert (await broker.topics.ensure("t")).partitions[0].log.high_watermark == 1
        assert await next_answer_after(client) > 0.5


async def test_the_time_of_produce_without_acks_is_exempt(clock: MockClock) -> None:
    async with limited_broker(request_percentage=TINY) as (_, client):
        await send_without_acks(client)
        assert await next_answer_after(client) < 0.5
        assert await next_answer_after(client) > 0.5


async def test_produce_of_another_client_is_not_throttled(clock: MockClock) -> None:
    async with limited_broker() as (broker, client):
        await set_quotas(broker, "greedy", producer_byte_rate=1)
        assert (await client.ask(PRODUCE, 9, batches())).throttle_time_ms == 0


async def test_fetch_above_its_quota_has_no_partitions_and_does_not_count(clock: MockClock) -> None:
    async with limited_broker(consumer_byte_rate=60) as (broker, client):
        await fill(broker, 1)
        answer: FetchResponse = await client.ask(FETCH, 11, fetch())
        # The batch is whole, and larger than what ten seconds have.
        assert answer.responses == []
        assert answer.error_code == 0
        assert answer.throttle_time_ms > 0
        # What was not sent was taken back: else it would be more than twice as long now.
        again = await client.ask(FETCH, 11, fetch())
        assert 0 < again.throttle_time_ms <= answer.throttle_time_ms
        await set_quotas(broker, consumer_byte_rate=200)
        served = await client.ask(FETCH, 11, fetch())
        assert served.throttle_time_ms == 0
        assert served.responses[0].partitions[0].records == RECORDS


async def test_fetch_counts_the_bytes_of_its_response(clock: MockClock) -> None:
    async with limited_broker() as (broker, client):
        await fill(broker, 1)
        parts = await client.finish_parts(client.start(FETCH, 11, fetch()))
        # Without the correlation id, and with four bytes more, as Apache Kafka counts.
        size = len(parts) - LENGTH_BYTES
        for more, throttled in ((0, False), (-1, True)):
            await set_quotas(broker, consumer_byte_rate=(size + more) // 1)
            answers = [await client.ask(FETCH, 11, fetch()) for _ in range(10)]
            assert bool(answers[-1].throttle_time_ms) == throttled
            await trio.sleep(11)


async def test_fetch_asks_for_no_more_than_its_quota_has(clock: MockClock) -> None:
    async with limited_broker(consumer_byte_rate=300) as (broker, client):
        await fill(broker, 10)
        answer: FetchResponse = await client.ask(FETCH, 11, fetch())
        # The records are what ten seconds have, where all of them would be throttled for ever. As in Kafka
        # what is around them is throttled for a moment.
        assert 0 < answer.throttle_time_ms < 1000
        while answer.throttle_time_ms:
            answer = await client.ask(FETCH, 11, fetch())
        records = answer.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert len(records) == 3000
        # It does not wait for more either.
        waiting = fetch(5, min_bytes=100_000, max_wait_ms=10_000)
        before = trio.current_time()
        await client.ask(FETCH, 11, waiting)
        assert trio.current_time() - before < 9


async def test_fetch_that_is_throttled_opens_no_session(clock: MockClock) -> None:
    async with limited_broker(consumer_byte_rate=1) as (broker, client):
        await fill(broker, 1)
        answer: FetchResponse = await client.ask(FETCH, 11, fetch(session_epoch=0))
        assert (answer.session_id, answer.responses) == (0, [])
        assert len(client.fetch_sessions) == 0


async def test_fetch_in_a_session_gets_later_what_it_did_not_get_while_throttled(clock: MockClock) -> None:
    async with limited_broker() as (broker, client):
        opened: FetchResponse = await client.ask(FETCH, 11, fetch(session_epoch=0))
        session_id = opened.session_id
        assert session_id
        await fill(broker, 1)
        await set_quotas(broker, consumer_byte_rate=5)
        # The client asks from the end on: there are no records for it, but a new high watermark.
        nothing = fetch(1, session_id=session_id, session_epoch=1)
        throttled: FetchResponse = await client.ask(FETCH, 11, nothing)
        assert (throttled.session_id, throttled.responses) == (session_id, [])
        assert throttled.throttle_time_ms > 0
        await set_quotas(broker, consumer_byte_rate=None)
        following = fetch(topics=[], session_id=session_id, session_epoch=2)
        answer = await client.ask(FETCH, 11, following)
        assert answer.responses[0].partitions[0].high_watermark == 1
        last = await client.ask(FETCH, 11, fetch(topics=[], session_id=session_id, session_epoch=3))
        assert last.responses == []


async def test_fetch_keeps_the_error_of_a_session(clock: MockClock) -> None:
    async with limited_broker(consumer_byte_rate=1) as (_, client):
        request = fetch(session_id=7, session_epoch=1)
        answer = await client.ask(FETCH, 11, request)
        assert answer.throttle_time_ms > 0
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_fetch_of_a_follower_is_exempt(clock: MockClock) -> None:
    async with limited_broker(consumer_byte_rate=1, request_percentage=TINY) as (broker, client):
        await fill(broker, 1)
        topic_id = (await broker.topics.ensure("t")).topic_id.bytes
        for version, request in (
            (11, fetch(replica_id=7)),
            (15, fetch(replica_state=FetchReplicaState(replica_id=7))),
        ):
            request.topics[0].topic_id = topic_id
            answer = await client.ask(FETCH, version, request)
            assert answer.throttle_time_ms == 0
            assert answer.responses[0].partitions[0].records == RECORDS


async def test_request_percentage_throttles_every_request_for_a_second_at_most(clock: MockClock) -> None:
    async with limited_broker(request_percentage=TINY) as (_, client):
        for api, version, request in (
            (PRODUCE, 9, batches()),
            (FETCH, 11, fetch()),
            (METADATA, 9, MetadataRequest(topics=[])),
            (API_VERSIONS, 3, VERSIONS),
        ):
            answer = await client.ask(api, version, request)
            assert answer.throttle_time_ms == 1000
        assert answer.error_code == 0


async def test_request_percentage_is_of_the_time_of_the_event_loop(clock: MockClock) -> None:
    async with limited_broker(request_percentage=50) as (_, client):
        # It waits for ten seconds, and hardly works meanwhile.
        answer = await client.ask(FETCH, 11, fetch(0, min_bytes=1, max_wait_ms=10_000))
        assert answer.throttle_time_ms == 0


async def test_write_txn_markers_of_brokers_is_exempt() -> None:
    async with limited_broker(request_percentage=TINY) as (_, client):
        route = client.routes[WRITE_TXN_MARKERS.key, 1]
        assert route.handle.__module__.endswith("write_txn_markers")


def created(*names: str, partitions: int = 10, **fields: Any) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, **fields)


EXCEEDED = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


async def test_create_topics_is_refused_topic_by_topic_where_clients_know_the_error(clock: MockClock) -> None:
    async with limited_broker(controller_mutation_rate=1) as (broker, client):
        # Eleven partitions are saved up, the second topic takes more than is left.
        answer = await client.ask(CREATE_TOPICS, 7, created("a", "b", "c"))
        results = [(each.error_code, each.error_message) for each in answer.topics]
        assert results == [(0, None), (0, None), EXCEEDED]
        assert answer.throttle_time_ms == 9000
        assert broker.topics.find("b")
        assert not broker.topics.find("c")
        assert await next_answer_after(client) == pytest.approx(9.0, abs=0.2)
        again = await client.ask(CREATE_TOPICS, 7, created("c"))
        assert (again.topics[0].error_code, again.throttle_time_ms) == (0, 0)


async def test_create_topics_of_old_clients_is_throttled_and_never_refused(clock: MockClock) -> None:
    async with limited_broker(controller_mutation_rate=1) as (_, client):
        answer = await client.ask(CREATE_TOPICS, 5, created("a", "b", "c"))
        assert [each.error_code for each in answer.topics] == [0, 0, 0]
        assert answer.throttle_time_ms == 19_000


async def test_create_topics_counts_nothing_for_topics_that_are_refused(clock: MockClock) -> None:
    async with limited_broker(controller_mutation_rate=1) as (_, client):
        refused = await client.ask(CREATE_TOPICS, 7, created("t", "bad name", partitions=20))
        assert refused.throttle_time_ms == 0
        assert (await client.ask(CREATE_TOPICS, 7, created("a", partitions=11))).throttle_time_ms == 0
        assert (await client.ask(CREATE_TOPICS, 7, created("b", partitions=1))).topics[0].error_code == 0
        # As in Kafka what is only validated counts.
        validated = await client.ask(CREATE_TOPICS, 7, created("c", validate_only=True))
        assert validated.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("api", "strict", "request_of_12"),
    [
        (
            CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=15, assignments=None)],
                timeout_ms=1000,
                validate_only=False,
            ),
        ),
        (DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["twelve"], timeout_ms=1000)),
    ],
)
@pytest.mark.parametrize("is_strict", [False, True])
async def test_create_partitions_and_delete_topics_count_partitions(
    api: Api, strict: int, request_of_12: Any, is_strict: bool, clock: MockClock
) -> None:
    async with limited_broker() as (broker, client):
        await client.ask(CREATE_TOPICS, 7, created("twelve", partitions=12))
        await client.ask(CREATE_TOPICS, 7, created("one", partitions=1))
        await set_quotas(broker, controller_mutation_rate=1)
        version = strict if is_strict else strict - 1
        first = await client.ask(api, version, request_of_12)
        assert first.throttle_time_ms == (0 if is_strict else 1000)
        if is_strict:
            follower = DeleteTopicsRequest(topic_names=["one"], timeout_ms=1000)
            refused = await client.ask(DELETE_TOPICS, 5, follower)
            result = refused.responses[0]
            assert (result.error_code, result.error_message) == EXCEEDED
            assert broker.topics.find("one")


async def test_delete_topics_by_id_counts_partitions(clock: MockClock) -> None:
    async with limited_broker() as (broker, client):
        await client.ask(CREATE_TOPICS, 7, created("a", partitions=12))
        await set_quotas(broker, controller_mutation_rate=1)
        for name, code in (("a", 0), ("t", ErrorCode.THROTTLING_QUOTA_EXCEEDED)):
            topic_id = (await broker.topics.ensure(name)).topic_id.bytes
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1000
            )
            assert (await client.ask(DELETE_TOPICS, 6, request)).responses[0].error_code == code


async def test_metadata_creates_topics_within_the_quota_only(clock: MockClock) -> None:
    async with limited_broker(controller_mutation_rate=1) as (broker, client):
        names = [f"new {number}".replace(" ", "-") for number in range(6)]
        asked = [MetadataRequestTopic(name=name) for name in names]
        answer = await client.ask(METADATA, 9, MetadataRequest(topics=asked, allow_auto_topic_creation=True))
        # As in Kafka the client is not told.
        assert {each.error_code for each in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert answer.throttle_time_ms == 0
        await wait_all_tasks_blocked(0.05)
        # Of three partitions each: the fourth takes more than there is.
        assert [name for name in names if broker.topics.find(name)] == names[:4]


@attrs.define
class Stage(RequestStage):
    """Throttles each request."""

    seconds: float
    phase: Phase = Phase.QUOTA

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        return self.seconds


@pytest.mark.parametrize(("seconds", "throttle_ms"), [(0.5, 1000), (2.0, 2000)])
async def test_the_longer_time_of_quotas_and_stages_counts(
    seconds: float, throttle_ms: int, clock: MockClock
) -> None:
    async with limited_broker(request_percentage=TINY) as (broker, _):
        client = Client(broker, stages=[Stage(seconds)])
        for api, version, request in ((METADATA, 9, MetadataRequest(topics=[])), (PRODUCE, 9, batches())):
            assert (await client.ask(api, version, request)).throttle_time_ms == throttle_ms


async def test_a_cancelled_fetch_ends_its_handler(clock: MockClock) -> None:
    async with limited_broker(request_percentage=50) as (broker, client):
        step = client.start(FETCH, 11, fetch(0, min_bytes=1, max_wait_ms=10_000))
        assert not isinstance(step, list)
        with trio.move_on_after(1):
            await step
        # Its waiter is gone, as without quotas.
        log = (await broker.topics.ensure("t")).partitions[0].log
        assert not log.watermarks.waiters
