"""Conformance of transports: a suite for each that `listener.security.protocol.map` can name.

    class TestMyTransport(TransportConformance, plugin=my_plugin): ...

Each test has a connection over loopback, accepted as the server does. Where clients send other bytes than the
protocol's, as with TLS, a subclass returns such a client from `client`.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any, ClassVar, Final

import attrs
import pytest
import trio
import trio.testing

from tidelog.kernel.config import Config
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.transport import ListenerTransport, Transport, TransportBackend
from tidelog.kernel.seams.wire import Peer
from tidelog.kernel.testing.installed import with_installed_keys

LISTENER: Final = "PROVEN"
MOST_SECONDS: Final = 10.0
MOST_BLOCKING_SECONDS: Final = 0.25
"""A call takes at most as long, at best of three times: all other connections wait meanwhile."""
SIZES: Final = (1, 2, 100, 16_384, 16_385, 300_000)
BUFFERS: Final = (1, 7, 4096, 65_536)
SMALL_BYTES: Final = 3000
"""Of a message that is received with a buffer of one byte."""


@attrs.frozen
class ProvenConnection:
    """Both ends of a connection."""

    transport: Transport
    client: trio.abc.Stream

    async def receive(self, count: int, buffer_bytes: int = 65_536) -> bytes:
        """Return the next bytes that the server receives, waiting as a connection does."""
        received, buffer = bytearray(), bytearray(buffer_bytes)
        while len(received) < count:
            try:
                taken = self.transport.recv_into(memoryview(buffer))
            except BlockingIOError:
                await self.transport.wait_readable()
                continue
            assert 0 <= taken <= buffer_bytes, f"{taken} bytes in a buffer of {buffer_bytes}"
            if not taken:
                break
            received += buffer[:taken]
        return bytes(received)

    async def send(self, data: bytes, flags: int = 0) -> None:
        """Send all, waiting as a connection does."""
        view = memoryview(data)
        while view:
            try:
                taken = self.transport.send(view, flags)
            except BlockingIOError:
                await self.transport.wait_writable()
                continue
            assert 0 <= taken <= len(view), f"{taken} bytes of {len(view)} are sent"
            view = view[taken:]

    async def client_receives(self, count: int) -> bytes:
        """Return the next bytes of the client."""
        received = bytearray()
        while len(received) < count and (some := await self.client.receive_some()):
            received += some
        return bytes(received)


@pytest.mark.trio
class TransportConformance:
    """Everything that the kernel relies on; `plugin` is the module with the hook of the transport to prove.

    `transport_name` chooses one where the plugin offers several, `settings` are keys of the configuration.
    """

    plugin: ClassVar[ModuleType]
    transport_name: ClassVar[str | None] = None
    settings: ClassVar[Mapping[str, object]] = {}

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    async def client(self, stream: trio.SocketStream) -> trio.abc.Stream:
        """Return what a client has of a connection, after its handshake if there is one."""
        return stream

    def config(self) -> Config:
        """Return the configuration of a broker with a listener of this transport."""
        own = list(self.plugin.tidelog_config_keys()) if hasattr(self.plugin, "tidelog_config_keys") else []
        return Config.from_mapping({"storage": "memory", **self.settings}, with_installed_keys(own))

    def backend(self) -> TransportBackend:
        """Return what the plugin offers."""
        offered: Sequence[TransportBackend] = list(self.plugin.tidelog_transports())
        (chosen,) = [each for each in offered if self.transport_name in (None, each.name)]
        return chosen

    @contextlib.asynccontextmanager
    async def connections(self, count: int) -> AsyncGenerator[Sequence[ProvenConnection]]:
        """Connect clients to a listener of the transport."""
        listener = self.backend().create(self.config(), LISTENER)
        made: list[ProvenConnection] = []
        with trio.fail_after(MOST_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listener.run)
                try:
                    for _ in range(count):
                        made.append(await _connection(listener, self))
                    yield made
                finally:
                    for connection in made:
                        with contextlib.suppress(OSError):
                            connection.transport.close()
                        with trio.move_on_after(0.1, shield=True):
                            await trio.aclose_forcefully(connection.client)
                    nursery.cancel_scope.cancel()

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncGenerator[ProvenConnection]:
        """Connect one client."""
        async with self.connections(1) as (connection,):
            yield connection

    # --- configuration

    async def test_name_is_that_of_a_security_protocol(self) -> None:
        name = self.backend().name
        assert name == name.upper(), f"{name} is no name of a security protocol"

    async def test_check_and_follow_take_the_configuration_that_it_was_made_with(self) -> None:
        config = self.config()
        listener = self.backend().create(config, LISTENER)
        listener.check(config)
        listener.follow(config)

    async def test_run_ends_when_it_is_cancelled(self) -> None:
        listener = self.backend().create(self.config(), LISTENER)
        started = perf_counter()
        with trio.move_on_after(0.01):
            await listener.run()
        assert perf_counter() - started <= MOST_BLOCKING_SECONDS, "it continues after it was cancelled"

    # --- bytes

    async def test_bytes_arrive_as_they_were_sent(self) -> None:
        choose = random.Random(3)
        async with self.connected() as connection:
            for size in SIZES:
                data = choose.randbytes(size)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.client.send_all, data)
                    assert await connection.receive(size) == data
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.send, data)
                    assert await connection.client_receives(size) == data

    async def test_a_buffer_of_any_size_receives_all(self) -> None:
        data = random.Random(4).randbytes(SMALL_BYTES)
        async with self.connected() as connection:
            for buffer_bytes in BUFFERS:
                await connection.client.send_all(data)
                assert await connection.receive(SMALL_BYTES, buffer_bytes) == data

    async def test_what_was_received_makes_it_readable_or_is_held(self) -> None:
        async with self.connected() as connection:
            await connection.client.send_all(b"some bytes")
            assert await connection.receive(1, 1) == b"s"
            readable, _, _ = select.select([connection.transport.fileno()], [], [], 0)
            assert readable or connection.transport.holds_bytes, "the rest is noticed by no one"
            assert await connection.receive(9) == b"ome bytes"
            assert not connection.transport.holds_bytes

    async def test_without_bytes_receiving_blocks_neither_the_loop_nor_ends(self) -> None:
        async with self.connected() as connection:
            started = perf_counter()
            with pytest.raises(BlockingIOError):
                connection.transport.recv_into(bytearray(10))
            assert perf_counter() - started <= MOST_BLOCKING_SECONDS

    async def test_a_peer_that_reads_nothing_blocks_no_loop_and_loses_nothing(self) -> None:
        data = random.Random(5).randbytes(8 * 1024 * 1024)
        async with self.connected() as connection:
            sent = _send_until_it_would_block(connection.transport, data)
            assert sent < len(data), "it takes all without a reader"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.send, data[sent:])
                assert await connection.client_receives(len(data)) == data

    async def test_more_may_follow_what_is_sent(self) -> None:
        async with self.connected() as connection:
            await connection.send(b"head ", socket.MSG_MORE)
            await connection.send(b"and body")
            assert await connection.client_receives(13) == b"head and body"

    async def test_files_are_sent_from_any_position(self) -> None:
        content = random.Random(6).randbytes(100_000)
        async with self.connected() as connection:
            if not connection.transport.sends_files:
                pytest.skip("files are read, and their bytes sent")
            with tempfile.TemporaryFile() as file:
                file.write(content)
                file.flush()
                assert connection.transport.send_region(file.fileno(), len(content), 10) == 0
                position, end = 1000, 91_000
                async with trio.open_nursery() as nursery:

                    async def check() -> None:
                        assert await connection.client_receives(90_000) == content[1000:91_000]

                    nursery.start_soon(check)
                    while position < end:
                        taken = connection.transport.send_region(file.fileno(), position, end - position)
                        if taken is None:
                            await connection.transport.wait_writable()
                        position += taken or 0
                    assert position == end, "more is sent than was asked for"

    # --- ends

    async def test_the_end_of_the_peer_is_seen_after_its_last_bytes(self) -> None:
        async with self.connected() as connection:
            assert not connection.transport.has_left()
            await connection.client.send_all(b"the last ones")
            await connection.client.aclose()
            assert await connection.receive(100) == b"the last ones"
            await _eventually(connection.transport.has_left)

    async def test_close_ends_the_connection_of_the_peer(self) -> None:
        async with self.connected() as connection:
            assert connection.transport.fileno() >= 0
            connection.transport.close()
            assert connection.transport.fileno() == -1
            with contextlib.suppress(trio.BrokenResourceError):
                assert await connection.client_receives(1) == b""

    async def test_shutdown_wakes_a_task_that_waits(self) -> None:
        async with self.connected() as connection:

            async def wait() -> None:
                assert await connection.receive(1) == b""

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                connection.transport.shutdown(socket.SHUT_RDWR)

    async def test_unsent_bytes_and_principal_are_known(self) -> None:
        async with self.connected() as connection:
            assert connection.transport.unsent_bytes() >= 0
            assert isinstance(connection.transport.principal, Principal)
            await connection.send(b"x")
            assert await connection.client_receives(1) == b"x"
            await _eventually(lambda: not connection.transport.unsent_bytes())

    async def test_connections_know_nothing_of_each_other(self) -> None:
        async with self.connections(2) as both:
            for number, connection in enumerate(both):
                await connection.client.send_all(b"from %d" % number)
            for position in (0, 3):
                for number, connection in enumerate(both):
                    expected = (b"from %d" % number)[position : position + 3]
                    assert await connection.receive(3, 3) == expected
            both[0].transport.close()
            await both[1].send(b"still there")
            assert await both[1].client_receives(11) == b"still there"


def _send_until_it_would_block(transport: Transport, data: bytes) -> int:
    """Return how many bytes were sent; no call may take long."""
    sent = 0
    while sent < len(data):
        started = perf_counter()
        try:
            sent += transport.send(memoryview(data)[sent : sent + 65_536])
        except BlockingIOError:
            return sent
        finally:
            assert perf_counter() - started <= MOST_BLOCKING_SECONDS, "a call blocks the event loop"
    return sent


async def _eventually(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what the system does has no event
        await trio.sleep(0.001)


async def _connection(listener: ListenerTransport, suite: TransportConformance) -> ProvenConnection:
    """Return a connection of a client, as the server accepts it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
        accepted, (host, port) = server.accept()
    accepted.setblocking(False)
    ends: list[Any] = [None, None]

    async def accept() -> None:
        made = listener.accept(accepted, Peer(host, port, LISTENER))
        ends[0] = await made if isinstance(made, Awaitable) else made

    async def connect() -> None:
        ends[1] = await suite.client(stream)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        nursery.start_soon(connect)
    return ProvenConnection(*ends)
