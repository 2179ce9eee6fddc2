"""The client and the registration of a broker with a real ZooKeeper, and with servers that are none."""

from __future__ import annotations

import json
import signal
import socket
import struct
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl_credential

from tests.conftest import only_cause
from tests.deadlines import DEADLINE_S
from tests.peers import TICK_MS, TidelogServer, ZooKeeperServer, free_port, running_zookeeper
from tidelog.kernel import Broker
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.zookeeper.connect_string import parse_connect_string
from tidelog.plugins.zookeeper.errors import (
    NodeExists,
    NoNode,
    NotEmpty,
    Refused,
    SessionExpired,
    Unavailable,
)
from tidelog.plugins.zookeeper.kazoo_client import KazooZooKeeper
from tidelog.plugins.zookeeper.kazoo_requests import MAX_VALUE_BYTES

# The shortest that the server grants.
SESSION_MS = 2 * TICK_MS
_chroots = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ZooKeeperServer]:
    """A ZooKeeper for all tests here."""
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        yield zookeeper


@attrs.frozen
class Place:
    """A chroot of a test's own, and what another client finds there."""

    connect: str
    chroot: str
    observer: Any

    def children(self, path: str) -> list[str]:
        """The names below a node, none if it is not there."""
        there = self.observer.exists(self.chroot + path)
        return sorted(self.observer.get_children(self.chroot + path)) if there else []

    def value(self, path: str) -> Any:
        return json.loads(self.observer.get(self.chroot + path)[0])

    def owner(self, path: str) -> int:
        stat = self.observer.exists(self.chroot + path)
        return 0 if stat is None else int(stat.ephemeralOwner)


@pytest.fixture
def place(server: ZooKeeperServer) -> Generator[Place]:
    """A path that is not there yet."""
    observer: Any = KazooClient(server.connect)
    observer.start(DEADLINE_S)
    chroot = f"/tests/{next(_chroots)}"
    yield Place(server.connect + chroot, chroot, observer)
    observer.stop()
    observer.close()


@asynccontextmanager
async def client(connect: str, *, session_ms: int = SESSION_MS) -> AsyncGenerator[KazooZooKeeper]:
    """A running client."""
    zookeeper = KazooZooKeeper(parse_connect_string(connect), session_ms, 3)
    async with zookeeper.running():
        yield zookeeper


@asynccontextmanager
async def connected(place: Place) -> AsyncGenerator[KazooZooKeeper]:
    """A client that is connected, and whose chroot is there."""
    async with client(place.connect, session_ms=6000) as zookeeper:
        await until_connected(zookeeper)
        await zookeeper.create_chroot()
        yield zookeeper


async def until_connected(zookeeper: KazooZooKeeper) -> None:
    with trio.fail_after(DEADLINE_S):
        while not zookeeper.session_id:
            await zookeeper.wait_changed()


async def until(condition: Any) -> None:
    """Wait for what another process does."""
    with trio.fail_after(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - it is another process
            await trio.sleep(0.01)


async def test_client_does_what_a_session_promises(place: Place) -> None:
    async with connected(place) as zookeeper:
        assert await zookeeper.create("/a", b"1") == "/a"
        assert await zookeeper.create("/a/b", b"2", ephemeral=True) == "/a/b"
        assert await zookeeper.create("/a/n_", b"3", sequential=True) == "/a/n_0000000001"
        assert sorted(await zookeeper.children("/a")) == ["b", "n_0000000001"]
        there = await zookeeper.read("/a/b")
        assert (there.value, there.owner) == (b"2", zookeeper.session_id)
        assert (await zookeeper.read("/a")).owner == 0
        await zookeeper.write("/a", b"4")
        assert (await zookeeper.read("/a")).value == b"4"
        await zookeeper.delete("/a/b")
        assert place.children("/a") == ["n_0000000001"]


async def test_client_says_what_is_wrong_with_a_request(place: Place) -> None:
    async with connected(place) as zookeeper:
        await zookeeper.create("/a/".rstrip("/"))
        await zookeeper.create("/a/b")
        for error, operation in (
            (NodeExists, zookeeper.create("/a")),
            (NoNode, zookeeper.create("/c/d")),
            (NoNode, zookeeper.read("/c")),
            (NoNode, zookeeper.write("/c", b"")),
            (NoNode, zookeeper.children("/c")),
            (NoNode, zookeeper.delete("/c")),
            (NotEmpty, zookeeper.delete("/a")),
            (Refused, zookeeper.write("/a", bytes(MAX_VALUE_BYTES + 1))),
        ):
            with pytest.raises(error, match=f"^{place.chroot}/"):
                await operation
        await zookeeper.write("/a", bytes(MAX_VALUE_BYTES))


async def test_client_is_refused_by_an_access_control_list(place: Place) -> None:
    place.observer.add_auth("digest", "admin:secret")
    assert make_digest_acl_credential("admin", "secret")
    async with connected(place) as zookeeper:
        place.observer.create(f"{place.chroot}/closed", b"", CREATOR_ALL_ACL)
        with pytest.raises(Refused, match="access control lists do not allow it"):
            await zookeeper.write("/closed", b"1")


async def test_client_goes_on_in_a_new_session_after_an_expiry(place: Place) -> None:
    async with connected(place) as zookeeper:
        await zookeeper.create("/gone", ephemeral=True)
        before = zookeeper.session_id
        await expire(place, zookeeper)
        await until(lambda: zookeeper.session_id not in (0, before))
        with pytest.raises(NoNode):
            await zookeeper.read("/gone")


async def expire(place: Place, zookeeper: KazooZooKeeper) -> None:
    """End the session of a client: another one that takes it over closes it."""
    client_id = zookeeper._client.client_id  # pyright: ignore[reportPrivateUsage]
    thief: Any = KazooClient(place.connect.partition("/")[0], client_id=client_id)
    await trio.to_thread.run_sync(thief.start, DEADLINE_S)
    await trio.to_thread.run_sync(thief.stop)
    thief.close()


async def test_client_without_a_server_says_why() -> None:
    async with client("127.0.0.1:1") as zookeeper:
        with trio.fail_after(DEADLINE_S):
            while not zookeeper.problem:
                await zookeeper.wait_changed()
        assert "Connection refused" in zookeeper.problem
        with pytest.raises(Unavailable, match=r"not connected to ZooKeeper at 127\.0\.0\.1:1"):
            await zookeeper.read("/")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\4\0\0\0\0",
        b"\xff" * 64,
        b"\0\0\0\x25" + b"\xff" * 37,
    ],
    ids=["nothing", "http", "short", "negative", "wrong"],
)
async def test_client_of_a_server_that_is_no_zookeeper_tries_again(answer: bytes) -> None:
    connections = 0

    async def answer_nonsense(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        with trio.move_on_after(DEADLINE_S):
            await stream.receive_some(1000)
            await stream.send_all(answer)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer_nonsense, 0)
        port = listeners[0].socket.getsockname()[1]
        async with client(f"127.0.0.1:{port}") as zookeeper:
            await until(lambda: connections >= 3)
            assert zookeeper.session_id == 0
            await until(lambda: zookeeper.problem)
        nursery.cancel_scope.cancel()


async def test_client_of_a_server_that_answers_another_request_is_replaced() -> None:
    """Kazoo's thread ends then."""
    connections = 0

    async def answer_wrongly(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        await stream.receive_some(1000)
        # Protocol 0, timeout, session, password, not read-only; then an answer to request 99.
        connected = struct.pack(">iiqi16sb", 0, SESSION_MS, 77, 16, bytes(16), 0)
        await stream.send_all(struct.pack(">i", len(connected)) + connected)
        with trio.move_on_after(DEADLINE_S):
            await stream.receive_some(1000)
        await stream.send_all(struct.pack(">iiqi", 16, 99, 1, 0))
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer_wrongly, 0)
        async with client(f"127.0.0.1:{listeners[0].socket.getsockname()[1]}") as zookeeper:
            for expected in (1, 2):
                await until_connected(zookeeper)
                with pytest.raises(Unavailable):
                    await zookeeper.read("/")
                await until(lambda expected=expected: connections > expected)
        nursery.cancel_scope.cancel()


async def test_client_of_a_server_that_is_silent_gives_up_within_the_session_timeout() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        async with client(f"127.0.0.1:{silent.getsockname()[1]}") as zookeeper:
            await until(lambda: zookeeper.problem)
            assert zookeeper.session_id == 0


async def test_client_is_told_when_the_server_goes_and_when_it_is_back(place: Place, tmp_path: Path) -> None:
    # Longer than a start of the server takes on a busy machine.
    session_ms = round(1000 * DEADLINE_S)
    with running_zookeeper(tmp_path, settings={"maxSessionTimeout": str(session_ms)}) as server:
        async with client(server.connect, session_ms=session_ms) as zookeeper:
            await until_connected(zookeeper)
            session = zookeeper.session_id
            await trio.to_thread.run_sync(server.kill)
            await until(lambda: zookeeper.problem)
            assert zookeeper.session_id == 0
            await trio.to_thread.run_sync(server.start)
            await until(lambda: zookeeper.session_id)
            assert zookeeper.session_id == session


async def test_client_operation_in_an_expired_session_fails(place: Place) -> None:
    async with connected(place) as zookeeper:
        errors: list[Exception] = []

        async def read_on() -> None:
            while not errors:
                try:
                    await zookeeper.read("/")
                except (SessionExpired, Unavailable) as error:
                    errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_on)
            await expire(place, zookeeper)
        assert errors


@asynccontextmanager
async def registered_broker(place: Place, **settings: object) -> AsyncGenerator[Broker]:
    values = {"zookeeper.connect": place.connect, "zookeeper.session.timeout.ms": 6000, **settings}
    async with running_broker(values) as broker:
        yield broker


async def test_broker_is_registered_while_it_runs(place: Place) -> None:
    async with registered_broker(place) as broker:
        address = broker.listeners["PLAINTEXT"]
        assert place.value("/brokers/ids/1")["endpoints"] == [f"PLAINTEXT://{address}"]
        await broker.topics.create(TopicSpec("orders", 2))
        await until(lambda: place.owner("/controller") and "orders" in place.children("/brokers/topics"))
        await until(lambda: place.children("/brokers/topics/orders/partitions") == ["0", "1"])
        assert place.value("/cluster/id")["id"] == broker.cluster.cluster_id
    assert place.children("/brokers/ids") == []


async def test_broker_with_an_id_that_is_taken_does_not_start(place: Place) -> None:
    async with registered_broker(place, **{"zookeeper.layout": "0.7"}) as first:
        with pytest.raises(BaseExceptionGroup) as failed:
            async with registered_broker(place, **{"zookeeper.layout": "0.7"}):
                pytest.fail("it is ready")
        cause = only_cause(failed.value)
        assert isinstance(cause, ConfigError)
        holder = f"session 0x{place.owner('/brokers/ids/1'):x}, {first.listeners['PLAINTEXT']}"
        assert f"registered by another broker ({holder}" in str(cause)


async def test_broker_without_zookeeper_starts_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker({"zookeeper.connect": "127.0.0.1:1/k"}):
        assert (
            "ZooKeeper at 127.0.0.1:1/k: not connected: Connection refused; the broker serves" in caplog.text
        )


@pytest.fixture
def killable(place: Place, tmp_path: Path) -> Generator[TidelogServer]:
    """A broker as a process of its own, with a session of two seconds."""
    settings = {"zookeeper.connect": place.connect, "zookeeper.session.timeout.ms": "2000"}
    broker = TidelogServer(tmp_path, settings, requested_port=free_port())
    broker.start()
    yield broker
    broker.stop()


async def test_broker_registers_again_after_its_session_has_expired(
    place: Place, killable: TidelogServer
) -> None:
    before = place.owner("/brokers/ids/1")
    killable.process.signal(signal.SIGSTOP)
    await until(lambda: not place.owner("/brokers/ids/1"))
    killable.process.signal(signal.SIGCONT)
    await until(lambda: place.owner("/brokers/ids/1") not in (0, before))
    await until(lambda: place.owner("/controller") == place.owner("/brokers/ids/1"))


async def test_broker_serves_while_the_session_of_its_killed_predecessor_lasts(
    place: Place, killable: TidelogServer
) -> None:
    # The session is one that does not end by itself, however long the next start takes.
    path = f"{place.chroot}/brokers/ids/1"
    registration, _ = place.observer.get(path)
    killable.kill()
    await until(lambda: not place.owner("/brokers/ids/1"))
    place.observer.create(path, registration, ephemeral=True)
    before = place.owner("/brokers/ids/1")
    killable.start()
    # It answers, and its predecessor is still registered.
    assert place.owner("/brokers/ids/1") == before
    place.observer.delete(path)
    await until(lambda: place.owner("/brokers/ids/1") not in (0, before))
    assert "is still that of an earlier run of this broker" in killable.process.log_path.read_text()
