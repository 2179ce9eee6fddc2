"""Both drivers behind one face, and servers that play a part, so that a test of drivers is written once."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import trio

from tests.deadlines import DEADLINE_S
from tests.plugins.client.fakes import FakeBroker
from tidelog.plugins.client import BlockingClient, ClientSettings, RetryPolicy, TrioClient

QUICK = ClientSettings(
    request_timeout_s=DEADLINE_S,
    operation_timeout_s=2 * DEADLINE_S,
    connect_timeout_s=DEADLINE_S,
    max_response_bytes=4 * 1024 * 1024,
    retry=RetryPolicy(retries=3, backoff_s=0.01, max_backoff_s=0.05),
)
IMPATIENT_S = 0.2
"""For tests in which the time does run out: long enough for a busy machine to connect on loopback."""

Part = Callable[[trio.SocketStream], Awaitable[None]]


class Driven:
    """A client whose methods are called by name and awaited, whichever driver it has."""

    def __init__(self, client: BlockingClient | TrioClient) -> None:
        self.client = client

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """What the method returns or raises."""
        if isinstance(self.client, TrioClient):
            return await getattr(self.client, method)(*args, **kwargs)
        return await trio.to_thread.run_sync(partial(getattr(self.client, method), *args, **kwargs))

    async def read(self, *args: Any) -> list[Any]:
        """All records of a `read`."""
        if isinstance(self.client, TrioClient):
            return [record async for record in self.client.read(*args)]
        client = self.client
        return await trio.to_thread.run_sync(lambda: list(client.read(*args)))

    async def read_batches(self, *args: Any) -> list[Any]:
        """All batches of a `read_batches`."""
        if isinstance(self.client, TrioClient):
            return [batch async for batches in self.client.read_batches(*args) for batch in batches]
        client = self.client
        return await trio.to_thread.run_sync(
            lambda: [batch for batches in client.read_batches(*args) for batch in batches]
        )


@asynccontextmanager
async def blocking(bootstrap: str, settings: ClientSettings = QUICK) -> AsyncGenerator[Driven]:
    """The blocking driver, in threads."""
    with BlockingClient(bootstrap, settings=settings) as client:
        yield Driven(client)


@asynccontextmanager
async def trio_driven(bootstrap: str, settings: ClientSettings = QUICK) -> AsyncGenerator[Driven]:
    """The trio driver."""
    async with TrioClient(bootstrap, settings=settings) as client:
        yield Driven(client)


DRIVERS = {"blocking": blocking, "trio": trio_driven}


@asynccontextmanager
async def server(*parts: Part) -> AsyncGenerator[str]:
    """A server that plays one part per connection, the last one ever after; gives its `host:port`."""
    waiting = list(parts)

    async def play(stream: trio.SocketStream) -> None:
        part = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        # The client may hang up.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await part(stream)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, play, listeners)
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def receive_exactly(stream: trio.SocketStream, size: int) -> bytes:
    """So many bytes; trio.ClosedResourceError when the client closes before."""
    data = b""
    while len(data) < size:
        chunk = await stream.receive_some(size - len(data))
        if not chunk:
            raise trio.ClosedResourceError
        data += chunk
    return data


async def receive_request(stream: trio.SocketStream) -> bytes:
    """One request with its length."""
    head = await receive_exactly(stream, 4)
    return head + await receive_exactly(stream, struct.unpack(">i", head)[0])


async def settle(stream: trio.SocketStream) -> None:
    """Answer ApiVersions as a broker that has every version."""
    await stream.send_all(FakeBroker().receive(await receive_request(stream)))


def honest(broker: FakeBroker) -> Part:
    """A broker that answers everything, one request after the other."""

    async def part(stream: trio.SocketStream) -> None:
        while True:
            await stream.send_all(broker.receive(await receive_request(stream)))

    return part


def after_versions(part: Part) -> Part:
    """A server that settles versions, takes one request and then plays a part."""

    async def whole(stream: trio.SocketStream) -> None:
        await settle(stream)
        await receive_request(stream)
        await part(stream)

    return whole


def saying(data: bytes, *, then_close: bool = False) -> Part:
    """A server that says something and then nothing more, or closes."""

    async def part(stream: trio.SocketStream) -> None:
        await stream.send_all(data)
        if not then_close:
            await trio.sleep_forever()

    return part
