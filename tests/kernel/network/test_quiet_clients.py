"""Quiet clients: their requests are served by one task, without their own, and gather when there are many."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.network.quiet_clients import MANY_REQUESTS, PAUSE_SECONDS, TURN_SECONDS, QuietClients
from tidelog.kernel.network.transport import PlainTransport

from .line_protocol import RunningServer, ask, is_closed, running_server

QUIET_S = 2.5
"""Longer than from one sweep to the one after the next."""


class Now:
    """The clock by which turns and rates are measured."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        """Return the time, which passes by `step` at each call."""
        self.seconds += self.step
        return self.seconds


class Client:
    """A client and its connection, which is served a byte at a time."""

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        self.near = PlainTransport.of(near)
        self.served: list[bytes] = []
        self.serve: Callable[[bytes], bool] = lambda _: True
        self.awake = 0

    def serve_at_once(self) -> bool:
        """Take a byte."""
        byte = self.near.recv(1)
        self.served.append(byte)
        return self.serve(byte)

    async def sleep_forever(self, quiet: QuietClients) -> None:
        """Sleep again and again, as a connection does."""
        while True:
            await quiet.sleep(self.near, self)
            self.awake += 1

    def close(self) -> None:
        """Close both ends."""
        self.near.close()
        self.far.close()


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    found = [Client() for _ in range(MANY_REQUESTS)]
    yield found
    for client in found:
        client.close()


@pytest.fixture
async def quiet(now: Now, clients: list[Client]) -> AsyncGenerator[QuietClients]:
    """All of the clients sleep."""
    with QuietClients(now) as quiet:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(quiet.run)
            for client in clients:
                nursery.start_soon(client.sleep_forever, quiet)
            await wait_all_tasks_blocked()
            yield quiet
            nursery.cancel_scope.cancel()


async def test_sleep_serves_a_client_until_its_task_has_to(
    quiet: QuietClients, clients: list[Client]
) -> None:
    client = clients[0]
    client.serve = lambda byte: byte != b"c"
    for byte in (b"a", b"b", b"c", b"d"):
        client.far.send(byte)
        await wait_all_tasks_blocked()
    assert client.served == [b"a", b"b", b"c", b"d"]
    assert client.awake == 1
    assert not any(other.served for other in clients[1:])


async def test_sleep_raises_what_serving_raises(clients: list[Client]) -> None:
    def fail(byte: bytes) -> bool:
        raise OSError(f"no {byte!r}")

    client = clients[0]
    client.serve = fail
    client.far.send(b"a")
    with QuietClients() as quiet:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(quiet.run)
            with pytest.raises(OSError, match="no b'a'"):
                await quiet.sleep(client.near, client)
            nursery.cancel_scope.cancel()


async def test_a_cancelled_sleep_can_be_followed_by_another(quiet: QuietClients) -> None:
    other = Client()
    for _ in range(2):
        with trio.move_on_after(0):
            await quiet.sleep(other.near, other)
    other.far.send(b"a")
    await wait_all_tasks_blocked()
    assert not other.served
    other.close()


async def test_few_requests_are_served_as_they_arrive(
    mock_clock: MockClock, quiet: QuietClients, clients: list[Client], now: Now
) -> None:
    for number in range(4 * MANY_REQUESTS):
        clients[number % len(clients)].far.send(b"a")
        now.seconds += 1.1 * PAUSE_SECONDS / MANY_REQUESTS
        await wait_all_tasks_blocked()
        assert sum(len(client.served) for client in clients) == number + 1


async def test_many_requests_gather(
    mock_clock: MockClock, quiet: QuietClients, clients: list[Client], now: Now
) -> None:
    def served() -> int:
        return sum(len(client.served) for client in clients)

    now.seconds = PAUSE_SECONDS
    for client in clients:
        client.far.send(b"a")
    await wait_all_tasks_blocked()
    assert served() == MANY_REQUESTS
    for client in clients[:3]:
        client.far.send(b"b")
        await wait_all_tasks_blocked()
    assert served() == MANY_REQUESTS, "they gather"
    now.seconds += PAUSE_SECONDS
    mock_clock.jump(PAUSE_SECONDS)
    await wait_all_tasks_blocked()
    assert served() == MANY_REQUESTS + 3
    clients[0].far.send(b"c")
    await wait_all_tasks_blocked()
    assert served() == MANY_REQUESTS + 4, "there are few again"


async def test_other_tasks_run_after_a_turn(quiet: QuietClients, clients: list[Client], now: Now) -> None:
    turns: list[int] = []

    async def count() -> None:
        while sum(turns) < len(clients):
            turns.append(sum(len(client.served) for client in clients) - sum(turns))
            await trio.lowlevel.checkpoint()

    now.step = TURN_SECONDS / 2
    for client in clients:
        client.far.send(b"a")
    await count()
    # Both tasks run once between two checkpoints of either, in any order: that is two turns at most.
    assert 0 < max(turns) <= 4


async def test_without_epoll_each_task_waits_for_its_socket(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "epoll")
    clients[0].far.send(b"a")
    with QuietClients() as quiet:
        await quiet.run()
        await quiet.sleep(clients[0].near, clients[0])
    assert not clients[0].served


# Connections


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """Time that passes when nothing else is left to do."""
    autojump_clock.autojump_threshold = 0.005
    return autojump_clock


@asynccontextmanager
async def quiet_client() -> AsyncGenerator[tuple[RunningServer, trio.SocketStream]]:
    """A server and a client that has been quiet, has sent a request, and has been quiet again."""
    async with running_server() as server, await server.connect() as client:
        for _ in range(2):
            await trio.sleep(QUIET_S)
            assert await ask(client, "echo a") == "a"
        await trio.sleep(QUIET_S)
        yield server, client


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (b"echo b\n", b"b\n"),
        (b"echo b\necho c\necho d\n", b"b\nc\nd\n"),
        (b"big 5000\n", bytes(5000)),
        (b"big 5000000\n", bytes(5_000_000)),
        (b"file 100000\necho b\n", bytes(100_000) + b"b\n"),
        (b"silent\nsilent\necho b\n", b"b\n"),
        (b"wait\necho b\n", b"done\nb\n"),
        (b"echo b\nwait\necho c\n", b"b\ndone\nc\n"),
        (b"echo b\nwrong\n", b"b\n"),
        (b"wrong\n", b""),
        (b"crash\n", b""),
    ],
)
async def test_connection_of_a_quiet_client_serves_every_request(
    clock: MockClock, request_: bytes, response: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with quiet_client() as (server, client):
        server.protocol.gate.set()
        await client.send_all(request_)
        received = bytearray()
        while len(received) < len(response):
            received += await client.receive_some()
        assert received == response
        if b"wrong" in request_ or b"crash" in request_:
            assert await is_closed(client)
            await server.wait_connections(0)
        else:
            assert await ask(client, "echo z") == "z"


async def test_connection_of_a_quiet_client_takes_a_request_in_pieces(clock: MockClock) -> None:
    async with quiet_client() as (_, client):
        await client.send_all(b"ec")
        await trio.sleep(QUIET_S)
        assert await ask(client, "ho b") == "b"


async def test_connection_of_a_quiet_client_ends_with_it(clock: MockClock) -> None:
    async with quiet_client() as (server, client):
        await client.aclose()
        await server.wait_connections(0)


async def test_finish_ends_the_connection_of_a_quiet_client(clock: MockClock) -> None:
    async with quiet_client() as (server, client):
        await client.send_all(b"echo b\n")
        await server.finish()
        assert server.connection_count == 0
        assert await client.receive_some() == b"b\n"


async def test_requests_of_quiet_clients_are_served_without_their_tasks(clock: MockClock) -> None:
    async with quiet_client() as (server, client):
        await client.send_all(b"echo b\n")
        await wait_all_tasks_blocked()
        assert server.protocol.served_by.endswith("QuietClients.run")
        await client.send_all(b"echo c\n")
        await wait_all_tasks_blocked()
        assert server.protocol.served_by == "a connection"
