"""Requests of many connections that need more memory than there is: over sockets, of a whole broker."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio

from tests.deadlines import DEADLINE_S, until
from tests.plugins.protocol_kafka.apis.client import framed
from tidelog.kernel.broker import Broker
from tidelog.kernel.network import request_memory
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest

FRAME_BYTES = 1 << 20
BUDGET_BYTES = 4 * FRAME_BYTES
PART_BYTES = 20_000
"""More than each connection has anyway, and few enough for the system to keep while nothing is read."""
SETTINGS = {"socket.request.max.bytes": FRAME_BYTES, "queued.max.request.bytes": BUDGET_BYTES}
SMALL = framed(API_VERSIONS, 0, ApiVersionsRequest())


def padded(size: int) -> bytes:
    """A request of that size: what is behind its end is ignored."""
    request = SMALL[4:]
    return struct.pack(">i", size) + request + bytes(size - len(request))


PADDED = padded(FRAME_BYTES - 4)


@asynccontextmanager
async def clients(broker: Broker, count: int) -> AsyncGenerator[Sequence[trio.SocketStream]]:
    """Connected clients."""
    host, _, port = broker.listeners["PLAINTEXT"].rpartition(":")
    async with AsyncExitStack() as open_streams:
        yield [
            await open_streams.enter_async_context(await trio.open_tcp_stream(host, int(port)))
            for _ in range(count)
        ]


async def is_answered(stream: trio.SocketStream) -> bool:
    """Whether a whole answer comes, and not the end of the connection."""
    received = b""
    with trio.fail_after(DEADLINE_S):
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            try:
                more = await stream.receive_some()
            except trio.BrokenResourceError:
                return False
            if not more:
                return False
            received += more
    return True


async def until_one_waits(broker: Broker) -> None:
    """Return when the budget is used up."""
    await until(lambda: broker.server.request_memory.waiting_count, "a request that waits")


async def test_requests_that_exceed_the_memory_together_are_all_answered() -> None:
    async with running_broker(SETTINGS) as broker, clients(broker, 40) as streams:
        memory, most, answered = broker.server.request_memory, 0, list[bool]()

        async def ask(stream: trio.SocketStream) -> None:
            nonlocal most
            for start in range(0, FRAME_BYTES, 50_000):
                await stream.send_all(PADDED[start : start + 50_000])
                most = max(most, memory.used_bytes)
            answered.append(await is_answered(stream))

        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(ask, stream)
        assert answered == [True] * 40
        assert 0 < most <= BUDGET_BYTES


async def test_small_requests_are_served_while_others_wait_for_memory() -> None:
    async with running_broker(SETTINGS) as broker, clients(broker, 9) as (other, *streams):
        for stream in streams:
            await stream.send_all(PADDED[:PART_BYTES])
        await until_one_waits(broker)
        await other.send_all(SMALL)
        assert await is_answered(other)


async def test_connections_that_leave_make_way_for_those_that_wait() -> None:
    async with running_broker(SETTINGS) as broker, clients(broker, 1) as (other,):
        async with clients(broker, 8) as streams:
            for stream in streams:
                await stream.send_all(PADDED[:PART_BYTES])
            await until_one_waits(broker)
        await other.send_all(PADDED)
        assert await is_answered(other)
        assert broker.server.request_memory.waiting_count == 0


async def test_requests_that_stay_unfinished_are_given_up_for_those_that_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_memory, "PATIENCE_S", 0.5)
    async with running_broker(SETTINGS) as broker, clients(broker, 5) as (other, *hoarders):
        memory = broker.server.request_memory
        for number, stream in enumerate(hoarders, 1):
            await stream.send_all(PADDED[:PART_BYTES])
            taken = number * FRAME_BYTES
            await until(lambda taken=taken: memory.used_bytes == taken, f"{taken} bytes in use")  # type: ignore[misc]
        await other.send_all(PADDED)
        assert await is_answered(other)
        assert not await is_answered(hoarders[0])
        assert "KiB of its unfinished request (queued.max.request.bytes)" in caplog.text
        for stream in hoarders[2:]:
            await stream.send_all(PADDED[PART_BYTES:])
            assert await is_answered(stream)
