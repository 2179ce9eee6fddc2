"""Stages around the handlers, as clients see them through sockets: refusals, throttle times and errors."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.protocol_kafka.apis.client import answer_in, framed
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from tidelog.kernel.seams.requests import (
    ANONYMOUS,
    AclOperation,
    Permission,
    Phase,
    Request,
    RequestedApi,
    RequestStage,
    ResourceType,
)
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis import heartbeat, produce
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    HEARTBEAT,
    METADATA,
    PRODUCE,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.plugins.protocol_kafka.routes import Routes

THROTTLE_S = 30.0
LENGTH_BYTES = 4
VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


class ForApi(RequestStage):
    """A stage for one API."""

    phase = Phase.AUTHORIZATION

    def __init__(self, api: Api) -> None:
        self.api = api

    def applies_to(self, api: RequestedApi) -> bool:
        return api.key == self.api.key


class Refusing(ForApi):
    def __init__(self, api: Api, error: BrokerError) -> None:
        super().__init__(api)
        self.error = error

    def before(self, request: Request) -> None:
        raise self.error


class Throttling(ForApi):
    phase = Phase.QUOTA

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        return THROTTLE_S


class Watching(ForApi):
    phase = Phase.METRICS

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.seen: list[tuple[Request, Any, float]] = []

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        self.seen.append((request, response, seconds))
        return 0.0


class Asking(ForApi):
    """Lets a request through, or not, when it is told so."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.tell, self.answers = trio.open_memory_channel[bool](0)

    def before(self, request: Request) -> Awaitable[None]:
        return self._ask()

    async def _ask(self) -> None:
        if not await self.answers.receive():
            raise TopicAuthorizationFailed("no")


class Broken(ForApi):
    def before(self, request: Request) -> None:
        raise ZeroDivisionError("a stage that fails")


class Connection:
    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    async def ask(self, api: Api, version: int, request: object) -> Any:
        await self.stream.send_all(framed(api, version, request))
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
            some = await self.stream.receive_some()
            if not some:
                raise EOFError
            received += some
        return answer_in(api, version, received)


@asynccontextmanager
async def connected(broker: Broker) -> AsyncGenerator[Connection]:
    host, _, port = next(iter(broker.listeners.values())).rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Connection(stream)


@asynccontextmanager
async def broker_with(*stages: RequestStage) -> AsyncGenerator[Broker]:
    async with running_broker() as broker:
        # Before the first connection, as if a plugin had returned them.
        broker.request_stages = stages
        yield broker


def batches(acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(make_batch([b"x"])))
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )


def test_a_handler_without_a_stage_is_the_handler_itself() -> None:
    for stages in ((), (Refusing(METADATA, BrokerError()),)):
        routes = Routes(BUILT_IN, stages)
        assert routes[PRODUCE.key, 9].handle is produce.handle
        assert routes[HEARTBEAT.key, 4].handle is heartbeat.handle


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TopicAuthorizationFailed("no"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GroupAuthorizationFailed("no"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ClusterAuthorizationFailed("no"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
async def test_a_stage_refuses_with_the_error_code_of_kafka(error: BrokerError, code: ErrorCode) -> None:
    async with broker_with(Refusing(PRODUCE, error)) as broker, connected(broker) as client:
        topic = await broker.topics.ensure("t")
        response: ProduceResponse = await client.ask(PRODUCE, 9, batches(acks=1))
        (result,) = response.responses[0].partition_responses
        assert (result.index, result.error_code, result.error_message) == (0, code, "no")
        assert topic.partitions[0].log.high_watermark == 0
        assert (await client.ask(METADATA, 9, MetadataRequest(topics=[]))).topics == []


async def test_a_stage_that_has_to_ask_holds_up_only_its_connection() -> None:
    asking = Asking(PRODUCE)
    async with broker_with(asking) as broker, connected(broker) as client, connected(broker) as other:
        log = (await broker.topics.ensure("t")).partitions[0].log
        codes: list[int] = []

        async def produce_twice() -> None:
            for _ in range(2):
                response: ProduceResponse = await client.ask(PRODUCE, 9, batches(acks=1))
                codes.append(response.responses[0].partition_responses[0].error_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce_twice)
            for allowed in (False, True):
                # By then the first stage asks, and nothing is appended.
                assert (await other.ask(API_VERSIONS, 3, VERSIONS)).error_code == 0
                assert log.high_watermark == 0
                await asking.tell.send(allowed)
        assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE]
        assert log.high_watermark == 1


async def test_a_refused_request_without_a_response_closes_its_connection() -> None:
    async with broker_with(Refusing(PRODUCE, TopicAuthorizationFailed("no"))) as broker:
        async with connected(broker) as client:
            with pytest.raises(EOFError):
                await client.ask(PRODUCE, 9, batches(acks=0))
        async with connected(broker) as other:
            assert (await other.ask(API_VERSIONS, 3, VERSIONS)).error_code == 0


async def test_a_throttled_client_gets_its_response_at_once_and_its_next_one_later(
    autojump_clock: MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.02
    stages = (Throttling(METADATA),)
    async with broker_with(*stages) as broker, connected(broker) as client, connected(broker) as other:
        # What is imported at the first request takes its time, too.
        for each in (client, other):
            await each.ask(API_VERSIONS, 3, VERSIONS)
        async with connected(broker) as first:
            await first.ask(METADATA, 9, MetadataRequest(topics=[]))
        asked_at = trio.current_time()
        response = await client.ask(METADATA, 9, MetadataRequest(topics=[]))
        assert response.throttle_time_ms == THROTTLE_S * 1000
        assert trio.current_time() - asked_at < THROTTLE_S
        answered: dict[str, float] = {}

        async def ask_again(name: str, connection: Connection) -> None:
            await connection.ask(API_VERSIONS, 3, VERSIONS)
            answered[name] = trio.current_time() - asked_at

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_again, "client", client)
            nursery.start_soon(ask_again, "other", other)
        assert answered["other"] < THROTTLE_S <= answered["client"]
        # The time is over: it is served as before.
        again_at = trio.current_time()
        await client.ask(API_VERSIONS, 3, VERSIONS)
        assert trio.current_time() - again_at < THROTTLE_S


async def test_an_error_of_a_stage_ends_only_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    stage = Broken(METADATA)
    async with broker_with(stage) as broker, connected(broker) as client, connected(broker) as other:
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await client.ask(METADATA, 9, MetadataRequest(topics=[]))
        assert (await other.ask(API_VERSIONS, 3, VERSIONS)).error_code == 0
    (record,) = caplog.records
    assert "at PLAINTEXT failed inside the broker, in tests.plugins.protocol_kafka" in record.message
    assert record.message.endswith("(Broken.before)")
    assert record.exc_info
    assert isinstance(record.exc_info[1], ZeroDivisionError)


async def test_a_stage_gets_request_response_and_time() -> None:
    watching: Sequence[Watching] = [Watching(METADATA), Watching(HEARTBEAT)]
    async with broker_with(*watching) as broker, connected(broker) as client:
        port = client.stream.socket.getsockname()[1]
        response = await client.ask(METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        await client.ask(HEARTBEAT, 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    ((request, seen, seconds),) = watching[0].seen
    assert request.api[:3] == (METADATA.key, "Metadata", 9)
    assert Permission(ResourceType.TOPIC, AclOperation.DESCRIBE) in request.api.needs
    assert request[1:6] == ("PLAINTEXT", "127.0.0.1", port, ANONYMOUS, "tests")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert request.size_bytes == len(framed(METADATA, 9, asked)) - LENGTH_BYTES
    assert [topic.name for topic in request.message.topics] == ["t"]  # type: ignore[attr-defined]
    assert seen == response
    assert seconds >= 0
    ((_, heartbeat_response, _),) = watching[1].seen
    assert heartbeat_response.error_code != 0
