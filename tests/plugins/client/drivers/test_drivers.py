"""Connections as both drivers keep them: shared, replaced, pipelined, given back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.plugins.client.driven import (
    IMPATIENT_S,
    QUICK,
    Part,
    blocking,
    honest,
    receive_request,
    saying,
    server,
    settle,
)
from tests.plugins.client.fakes import ALL_VERSIONS, FakeBroker, metadata_message
from tidelog.kernel.testing import make_batch
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import ClientSettings, TrioClient
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import BrokerClosed, ClientClosed, RequestTimedOut
from tidelog.plugins.client.settings import parse_addresses
from tidelog.plugins.client.steps import Pause, Session, Steps
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ASK = MetadataRequest(topics=[])
MEGABYTE = bytes(1024 * 1024)


def broker(**answers: Any) -> FakeBroker:
    return FakeBroker({"Metadata": metadata_message({}), **answers})


def fetch_of(records: bytes) -> FetchResponse:
    part = PartitionData(partition_index=0, error_code=0, high_watermark=0, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[part])])


def produce_of(records: bytes) -> ProduceRequest:
    part = PartitionProduceData(index=0, records=memoryview(records))
    return ProduceRequest(acks=1, timeout_ms=0, topic_data=[TopicProduceData(partition_data=[part])])


class Counting:
    """A part that counts its connections."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.connections = 0

    async def __call__(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        await self.part(stream)


async def test_a_pause_that_is_extra_postpones_the_deadline_of_an_operation(connect: Any) -> None:
    def operation(_: Session) -> Steps[str]:
        yield Pause(2 * IMPATIENT_S, is_extra=True)
        yield Pause(0)
        return "done"

    settings = attrs.evolve(QUICK, operation_timeout_s=IMPATIENT_S)
    async with connect("127.0.0.1:1", settings) as client:
        assert await client.call("run", operation) == "done"


@pytest.mark.parametrize(
    ("seconds", "waited_s", "outcome"), [(2.5, 2.5, nullcontext()), (100, 9, pytest.raises(RequestTimedOut))]
)
async def test_a_pause_takes_its_time_up_to_the_deadline_of_the_operation(
    seconds: float,
    waited_s: float,
    outcome: AbstractContextManager[object],
    autojump_clock: trio.testing.MockClock,
) -> None:
    def operation(_: Session) -> Steps[None]:
        yield Pause(seconds)
        yield Pause(0)

    async with TrioClient("a:1", settings=settings_of(9)) as client:
        began_s = trio.current_time()
        with outcome:
            await client.run(operation)
        assert trio.current_time() - began_s == waited_s


async def test_one_connection_serves_request_after_request(connect: Any) -> None:
    counting = Counting(honest(broker()))
    async with server(counting) as address, connect(address) as client:
        for _ in range(5):
            await client.call("request", ASK)
    assert counting.connections == 1


async def test_a_connection_that_the_broker_closed_meanwhile_is_replaced_unnoticed(connect: Any) -> None:
    async def once(stream: trio.SocketStream) -> None:
        await settle(stream)
        await stream.send_all(broker().receive(await receive_request(stream)))
        await stream.send_eof()

    counting = Counting(once)
    async with server(counting) as address, connect(address) as client:
        for _ in range(3):
            await client.call("request", ASK)
            await trio.testing.wait_all_tasks_blocked()
    assert counting.connections == 3


async def test_connect_negotiates_again_with_a_broker_of_older_versions(connect: Any) -> None:
    old = FakeBroker({"Metadata": metadata_message({})}, {**ALL_VERSIONS, API_VERSIONS.key: (0, 2)})
    async with server(honest(old)) as address, connect(address) as client:
        with trio.fail_after(DEADLINE_S):
            assert (await client.call("request", ASK)).cluster_id == "a-cluster"


async def test_connect_tries_the_next_address_when_one_refuses(connect: Any) -> None:
    async with server(honest(broker())) as address, connect(f"127.0.0.1:1,{address}") as client:
        assert (await client.call("request", ASK)).cluster_id == "a-cluster"


async def test_connect_leaves_time_for_the_next_address_after_a_silent_one(connect: Any) -> None:
    settings = attrs.evolve(QUICK, operation_timeout_s=4 * IMPATIENT_S)
    async with (
        server(saying(b"")) as silent,
        server(honest(broker())) as address,
        connect(f"{silent},{address}", settings) as client,
    ):
        await client.call("connect")
        assert (await client.call("request", ASK)).cluster_id == "a-cluster"


async def test_a_connection_that_is_open_comes_before_an_address_that_has_failed(connect: Any) -> None:
    failing = Counting(saying(b"", then_close=True))
    async with (
        server(failing) as first,
        server(honest(broker())) as second,
        connect(f"{first},{second}") as client,
    ):
        for _ in range(3):
            await client.call("request", ASK)
    assert failing.connections == 1


def settings_of(connect_timeout_s: float) -> ClientSettings:
    return ClientSettings(operation_timeout_s=9, connect_timeout_s=connect_timeout_s)


@pytest.mark.parametrize(
    ("topic_id", "known"), [(bytes(range(16)), UUID(bytes=bytes(range(16)))), (bytes(16), None)]
)
async def test_topic_id_is_that_of_the_last_metadata(topic_id: bytes, known: UUID | None) -> None:
    told = metadata_message({"orders": [1]}, topic_id=topic_id)
    async with server(honest(broker(Metadata=told))) as address, blocking(address) as client:
        assert await client.call("topic_id", "orders") is None
        await client.call("metadata", ["orders"])
        assert await client.call("topic_id", "orders") == known


async def test_request_for_a_node_connects_to_the_address_of_that_node(connect: Any) -> None:
    second = broker()
    async with server(honest(second)) as other:
        told = metadata_message({}, brokers={2: parse_addresses(other)[0]})
        async with server(honest(FakeBroker({"Metadata": told}))) as address, connect(address) as client:
            await client.call("request", ASK, node=2)
    assert len(second.asked) == 1


async def test_answers_are_not_kept(connect: Any) -> None:
    """But for the last one: a client may live as long as its process."""
    async with server(honest(broker())) as address, connect(address) as client:
        before = answers_alive()
        for _ in range(5):
            await client.call("request", ASK)
        assert answers_alive() <= before + 1


def answers_alive() -> int:
    gc.collect()
    return sum(type(each) is MetadataResponse for each in gc.get_objects())


def log_of(batches: int) -> Callable[[FetchRequest], FetchResponse]:
    """A log of batches with two records each, of which a fetch gets one."""

    def answer(request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        offset, end = topic.partitions[0].fetch_offset, 2 * batches
        part = PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=end,
            last_stable_offset=end,
            records=bytes(make_batch([b"one", b"two"], offset)) if offset < end else b"",
        )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic_id=topic.topic_id, topic=topic.topic, partitions=[part])]
        )

    return answer


async def test_read_gets_one_response_after_the_other_up_to_the_end_of_the_log(connect: Any) -> None:
    def metadata(_: MetadataRequest) -> MetadataResponse:
        return metadata_message({"orders": [1]}, brokers={1: parse_addresses(address)[0]})

    partition = TopicPartition("orders", 0)
    async with (
        server(honest(FakeBroker({"Metadata": metadata, "Fetch": log_of(3)}))) as address,
        connect(address) as client,
    ):
        assert [record.offset for record in await client.read(partition, 0)] == [*range(6)]
        assert [record.offset for record in await client.read(partition, 2, 4)] == [2, 3]
        batches = await client.read_batches(partition, 0)
        assert [header.base_offset for header, _ in batches] == [0, 2, 4]
        assert await client.read_batches(partition, 6) == await client.read(partition, 6) == []


async def test_request_all_returns_pipelined_responses_in_order(connect: Any) -> None:
    names = [f"topic-{number}" for number in range(200)]
    answers = [metadata_message({name: [1]}) for name in names]
    async with server(honest(FakeBroker({"Metadata": answers}))) as address, connect(address) as client:
        told = await client.call("request_all", [ASK for _ in names])
    assert [answer.topics[0].name for answer in told] == names


async def test_request_all_does_not_deadlock_on_large_requests_and_responses(connect: Any) -> None:
    """The broker reads a request only after it has sent the answer before it, as real ones do."""
    both = broker(Produce=ProduceResponse(responses=[]), Fetch=fetch_of(MEGABYTE))
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    requests = [request for _ in range(10) for request in (fetch, produce_of(MEGABYTE))]
    async with server(honest(both)) as address, connect(address) as client:
        with trio.fail_after(DEADLINE_S):
            answers = await client.call("request_all", requests)
    assert all(answer.responses[0].partitions[0].records == MEGABYTE for answer in answers[::2])
    assert len(both.asked) == len(requests)


@pytest.mark.parametrize("records", [b"abc", 16 * MEGABYTE + b"abc"], ids=["short", "long"])
async def test_request_of_produce_with_acks_0_is_sent_and_returns_none(connect: Any, records: bytes) -> None:
    unanswered = produce_of(records)
    unanswered.acks = 0
    seen = trio.Event()

    async def part(stream: trio.SocketStream) -> None:
        await settle(stream)
        assert (await receive_request(stream)).find(records) > 0
        seen.set()

    async with server(part) as address, connect(address) as client:
        assert await client.call("request", unanswered) is None
        with trio.fail_after(DEADLINE_S):
            await seen.wait()


async def test_a_closed_client_is_of_no_more_use(connect: Any) -> None:
    async with server(honest(broker())) as address:
        async with connect(address) as client:
            await client.call("connect")
        with pytest.raises(ClientClosed):
            await client.call("request", ASK)


async def test_many_tasks_share_one_connection() -> None:
    counting = Counting(honest(broker(Fetch=fetch_of(bytes(100_000)))))
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    right: list[bool] = []

    async def ask(number: int) -> None:
        if number % 2:
            right.append((await client.request(ASK)).cluster_id == "a-cluster")
        else:
            right.append(len((await client.request(fetch)).responses[0].partitions[0].records) == 100_000)

    async with (
        server(counting) as address,
        TrioClient(address, settings=QUICK) as client,
        trio.open_nursery() as nursery,
    ):
        for number in range(100):
            nursery.start_soon(ask, number)
    assert right == [True] * 100
    assert counting.connections == 1


async def test_a_cancelled_task_leaves_the_connection_to_the_others() -> None:
    """Its answer comes late and goes to nobody; the task behind it gets its own."""
    asked, go_on = trio.Event(), trio.Event()
    fake = FakeBroker({"Metadata": [metadata_message({"late": [1]}), metadata_message({"mine": [1]})]})

    async def slowly(stream: trio.SocketStream) -> None:
        await settle(stream)
        first = await receive_request(stream)
        asked.set()
        await go_on.wait()
        await stream.send_all(fake.receive(first))
        await stream.send_all(fake.receive(await receive_request(stream)))
        await trio.sleep_forever()

    counting = Counting(slowly)
    async with server(counting) as address, TrioClient(address, settings=QUICK) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.request, ASK)
            await asked.wait()
            nursery.cancel_scope.cancel()
        go_on.set()
        answer = await client.request(ASK)
    assert answer.topics[0].name == "mine"
    assert counting.connections == 1


async def test_a_task_cancelled_amid_sending_leaves_the_rest_to_the_next() -> None:
    may_read = trio.Event()
    both = broker(Produce=ProduceResponse(responses=[]))

    async def reluctant(stream: trio.SocketStream) -> None:
        await settle(stream)
        await stream.send_all(both.receive(await receive_request(stream)))
        await may_read.wait()
        while True:
            await stream.send_all(both.receive(await receive_request(stream)))

    async with server(reluctant) as address, TrioClient(address, settings=QUICK) as client:
        await client.connect()
        with trio.move_on_after(IMPATIENT_S):
            await client.request(produce_of(bytes(16 * 1024 * 1024)))
        may_read.set()
        assert (await client.request(ASK)).cluster_id == "a-cluster"
    assert [type(asked.message).__name__ for asked in both.asked] == [
        "MetadataRequest", "ProduceRequest", "MetadataRequest",
    ]  # fmt: skip


async def test_a_request_that_times_out_ends_its_connection_for_the_tasks_that_share_it() -> None:
    settings = attrs.evolve(QUICK, request_timeout_s=IMPATIENT_S)
    outcomes: list[type[Exception]] = []

    async def ask(client: TrioClient) -> None:
        try:
            await client.request(ASK)
        except (BrokerClosed, RequestTimedOut) as error:
            outcomes.append(type(error))

    async def mute(stream: trio.SocketStream) -> None:
        await settle(stream)
        await trio.sleep_forever()

    async with server(mute) as address, TrioClient(address, settings=settings) as client:
        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(ask, client)
    assert len(outcomes) == 3
    assert RequestTimedOut in outcomes


async def test_tasks_that_start_together_make_one_connection() -> None:
    counting = Counting(honest(broker()))
    async with (
        server(counting) as address,
        TrioClient(address, settings=QUICK) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(10):
            nursery.start_soon(client.connect)
    assert counting.connections == 1


async def test_close_ends_requests_in_progress() -> None:
    async def mute(stream: trio.SocketStream) -> None:
        await settle(stream)
        await trio.sleep_forever()

    async with server(mute) as address:
        client = TrioClient(address, settings=QUICK)

        async def close_soon() -> None:
            await trio.testing.wait_all_tasks_blocked()
            client.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close_soon)
            with pytest.raises(ClientClosed):
                await client.request(ASK)


def test_parse_addresses_keeps_bootstrap_addresses_apart() -> None:
    assert parse_addresses("a:1,b:2") == (Address("a", 1), Address("b", 2))
