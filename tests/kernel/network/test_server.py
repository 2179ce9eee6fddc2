"""The server over loopback: who is served, who waits, who is shown the door, and who disturbs nobody."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import struct
import weakref
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S, until, wait_until
from tidelog.kernel.network.busy_poll import ClosedLoop
from tidelog.kernel.network.transport import PlainTransport
from tidelog.kernel.network.turns import PIECE_BYTES, Turns

from .line_protocol import RunningServer, ask, is_closed, line_from, running_server


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """Time that passes when nothing else is left to do."""
    autojump_clock.autojump_threshold = 0.005
    return autojump_clock


def reset(stream: trio.SocketStream) -> None:
    """Let the connection end with a reset instead of an end."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


# Serving


async def test_connection_answers_pipelined_requests_in_order() -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"echo one\nsilent\necho two\nbig 3\necho three\n")
        assert [await line_from(client) for _ in range(2)] == [b"one\n", b"two\n"]
        assert await line_from(client) == b"\0\0\0three\n"


async def test_connection_answers_a_request_received_byte_by_byte() -> None:
    async with running_server() as server, await server.connect() as client:
        for byte in b"echo slowly\n":
            await client.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert await line_from(client) == b"slowly\n"


@pytest.mark.parametrize("pause_s", [0, 2.5], ids=["busy", "mostly quiet"])
async def test_connection_serves_single_and_pipelined_requests_in_turns(
    clock: MockClock, pause_s: float
) -> None:
    async with running_server() as server, await server.connect() as client:
        for turn in range(3):
            await trio.sleep(pause_s)
            assert await ask(client, f"echo single-{turn}") == f"single-{turn}"
            await trio.sleep(pause_s)
            await client.send_all(b"echo one\necho two\necho thr")
            assert [await line_from(client) for _ in range(2)] == [b"one\n", b"two\n"]
            await trio.sleep(pause_s)
            await client.send_all(b"ee\n")
            assert await line_from(client) == b"three\n"


async def test_connection_is_in_no_closed_loop_after_a_request_of_many_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[tuple[int, int]] = []
    monkeypatch.setattr(ClosedLoop, "answered", lambda _, *counts: noted.append(counts))
    async with running_server() as server, await server.connect() as client:
        for count in (500, 1):
            assert await ask(client, f"records {count}") == str(count)
        assert await ask(client, "echo word") == "word"
    assert noted[:3] == [(1, 500), (1, 1), (1, 0)]


async def test_connection_answers_requests_behind_a_waiting_one_in_order() -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"echo before\nwait\necho behind\n")
        assert await line_from(client) == b"before\n"
        await wait_all_tasks_blocked()
        assert (server.protocol.waiting, server.protocol.served) == (1, 2)
        server.protocol.gate.set()
        assert [await line_from(client) for _ in range(2)] == [b"done\n", b"behind\n"]


async def test_a_stream_goes_on_until_the_peer_sends_what_is_served_then() -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"stream\n")
        for _ in range(3):
            await until(lambda: server.protocol.waiting == 1, "a stream that waits")
            server.protocol.gate.set()
            assert await line_from(client) == b"more\n"
        await until(lambda: server.protocol.waiting == 1, "a stream that waits")
        # Half a line ends the wait, and the stream continues.
        await client.send_all(b"ec")
        await until(lambda: len(server.protocol.connections[0].data) == 2, "half a line")
        await until(lambda: server.protocol.waiting == 1, "a stream that waits")
        server.protocol.gate.set()
        assert await line_from(client) == b"more\n"
        assert await ask(client, "ho word") == "word"
        assert server.protocol.waiting == 0
        await client.send_all(b"stream\necho behind\n")
        assert await line_from(client) == b"behind\n"


async def test_a_stream_ends_with_its_peer_with_the_server_and_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server() as server:
        async with await server.connect() as client:
            await client.send_all(b"stream\n")
            await until(lambda: server.protocol.waiting == 1, "a stream that waits")
        await server.wait_connections(0)
        assert server.protocol.waiting == 0
        client = await server.connect()
        await client.send_all(b"stream\n")
        await until(lambda: server.protocol.waiting == 1, "a stream that waits")
        server.protocol.fails_to_stream = True
        server.protocol.gate.set()
        assert await is_closed(client)
        assert "the stream failed" in caplog.text
        server.protocol.gate = trio.Event()
        client = await server.connect()
        await client.send_all(b"stream\n")
        await until(lambda: server.protocol.waiting == 1, "a stream that waits")
        await server.finish()
        assert await is_closed(client)


async def test_a_peer_that_still_sends_gets_the_last_response() -> None:
    async with running_server() as server, await server.connect() as client:
        # More than is read before the response: closed with it unread, the system would reset the connection.
        await client.send_all(b"bye\n" + bytes(300_000))
        assert await line_from(client) == b"bye\n"
        assert await client.receive_some(1) == b""
        await client.aclose()
        await server.wait_connections(0)


async def test_a_peer_that_never_stops_sending_is_not_listened_to_forever(clock: MockClock) -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"bye\n")
        assert await line_from(client) == b"bye\n"
        # It keeps its end open.
        await server.wait_connections(0)
        assert await is_closed(client)


async def test_server_serves_many_connections_concurrently() -> None:
    async with running_server() as server:

        async def talk(number: int) -> None:
            async with await server.connect() as client:
                for turn in range(5):
                    assert await ask(client, f"echo {number}-{turn}") == f"{number}-{turn}"

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(talk, number)
        await server.wait_connections(0)
    assert [connection.closed for connection in server.protocol.connections] == [1] * 40


async def test_connection_sends_a_large_response_completely() -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"big 5000000\necho end\n")
        received = bytearray()
        while not received.endswith(b"end\n"):
            received += await client.receive_some()
        assert len(received) == 5_000_004


@pytest.fixture
def gave_way(monkeypatch: pytest.MonkeyPatch) -> list[Turns]:
    """An entry each time a response has given way."""
    noted: list[Turns] = []
    give_way = Turns.give_way

    async def observed(turns: Turns) -> None:
        noted.append(turns)
        await give_way(turns)

    monkeypatch.setattr(Turns, "give_way", observed)
    return noted


async def read_file(client: trio.SocketStream) -> None:
    """Receive a response of a million bytes and the word that follows it."""
    received = bytearray()
    while not received.endswith(b"end\n"):
        received += await client.receive_some()
    assert received == bytes(1_000_000) + b"end\n"


async def test_connection_gives_way_in_a_long_response_only_if_others_get_short_answers(
    gave_way: list[Turns],
) -> None:
    async def times(client: trio.SocketStream) -> int:
        before = len(gave_way)
        await client.send_all(b"file 1000000\necho end\n")
        await read_file(client)
        return len(gave_way) - before

    async with running_server() as server:
        reader, other = await server.connect(), await server.connect()
        assert [await times(client) for client in (reader, other, reader, other)] == [0] * 4
        assert await ask(other, "echo other") == "other"
        assert await times(reader) >= 1_000_000 // PIECE_BYTES
        assert await times(reader) == 0


async def test_connection_gives_way_to_one_that_sends_a_request_during_a_long_response(
    gave_way: list[Turns],
) -> None:
    async with (
        running_server(socket_send_buffer_bytes=102_400) as server,
        await server.connect() as reader,
        await server.connect() as other,
    ):
        await reader.send_all(b"file 1000000\necho end\n")
        await wait_all_tasks_blocked()
        assert not gave_way
        assert await ask(other, "echo other") == "other"
        await read_file(reader)
        assert gave_way


async def test_connection_yields_between_pipelined_requests_that_take_long() -> None:
    async with running_server() as server, await server.connect() as greedy, await server.connect() as other:
        await greedy.send_all(b"hog 50000\n" * 50)
        assert await ask(other, "echo other") == "other"
        assert server.protocol.served < 50


async def test_connection_answers_a_client_that_half_closed_its_socket() -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"echo one\nbig 300000\necho two\n")
        await client.send_eof()
        received = bytearray()
        while chunk := await client.receive_some():
            received += chunk
        assert len(received) == 300_000 + len(b"one\ntwo\n")


# Those who break the protocol, and handlers that fail


async def test_a_violation_ends_its_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with running_server() as server, await server.connect() as good, await server.connect() as bad:
        assert await ask(good, "echo hello") == "hello"
        await bad.send_all(b"echo before\nwrong\necho behind\n")
        assert await line_from(bad) == b"before\n"
        assert await is_closed(bad)
        assert await ask(good, "echo still") == "still"
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    host, port = bad.socket.getsockname() if bad.socket.fileno() >= 0 else ("127.0.0.1", 0)
    assert "'wrong' is no command" in record.getMessage()
    assert host in record.getMessage()
    assert port >= 0


async def test_a_handler_that_fails_ends_its_connection_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server() as server, await server.connect() as good, await server.connect() as bad:
        await bad.send_all(b"echo before\ncrash\n")
        assert await line_from(bad) == b"before\n"
        assert await is_closed(bad)
        assert await ask(good, "echo still") == "still"
        await server.wait_connections(1)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "at PLAINTEXT failed inside the broker, in the plugin lines-plugin at tests." in record.message
    assert record.__dict__["plugin"] == "lines-plugin"
    assert "the handler failed" in caplog.text


async def test_connection_logs_an_os_error_of_the_broker_but_not_a_reset_by_the_peer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both are errors of the operating system, but only one is worth an error in the log."""
    async with running_server() as server:
        async with await server.connect() as unlucky:
            await unlucky.send_all(b"disk\n")
            assert await is_closed(unlucky)
        leaving = await server.connect()
        await leaving.send_all(b"big 50000000\n")
        await wait_all_tasks_blocked()
        reset(leaving)
        await server.wait_connections(0)
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(errors) == 1
    assert "failed inside the broker" in errors[0].getMessage()
    assert "Input/output error" in caplog.text


async def test_a_codec_that_cannot_connect_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with running_server() as server, await server.connect() as good:
        assert await ask(good, "echo hello") == "hello"
        server.protocol.fails_to_connect = True
        async with await server.connect() as unlucky:
            assert await is_closed(unlucky)
        server.protocol.fails_to_connect = False
        assert await ask(good, "echo still") == "still"
        async with await server.connect() as another:
            assert await ask(another, "echo hello") == "hello"
    assert "failed inside the broker, in the plugin lines-plugin at " in caplog.text
    assert "no connection today" in caplog.text


# Peers that are slow, silent or gone


async def test_connection_of_a_slow_reader_does_not_stall_other_connections() -> None:
    async with running_server() as server, await server.connect() as slow, await server.connect() as quick:
        await slow.send_all(b"big 50000000\n")
        await wait_all_tasks_blocked()
        for number in range(100):
            assert await ask(quick, f"echo {number}") == str(number)
        received = 0
        while received < 50_000_000:
            received += len(await slow.receive_some(1_000_000))


async def test_sweep_ends_a_connection_whose_peer_reads_nothing(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=5000) as server, await server.connect() as stuck:
        await stuck.send_all(b"big 50000000\n")
        await server.wait_connections(1)
        start = trio.current_time()
        await server.wait_connections(0)
        assert 4 < trio.current_time() - start < 8


async def test_sweep_keeps_a_connection_whose_peer_reads_slowly(clock: MockClock) -> None:
    # On a busy machine what was sent takes longer to arrive, and then the clock would jump.
    clock.autojump_threshold = 0.05
    async with running_server(connections_max_idle_ms=3000) as server, await server.connect() as slow:
        await slow.send_all(b"big 20000000\n")
        received = 0
        while received < 20_000_000:
            await trio.sleep(1)
            for _ in range(20):
                received += len(await slow.receive_some(100_000))
                if received == 20_000_000:
                    break
        assert server.connection_count == 1


async def test_sweep_keeps_a_connection_whose_peer_reads_slowly_what_the_system_has(clock: MockClock) -> None:
    # On a busy machine what was sent takes longer to arrive, and then the clock would jump.
    clock.autojump_threshold = 0.05
    async with running_server(connections_max_idle_ms=3000) as server, await server.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        await slow.send_all(b"big 2000000\n")
        for _ in range(8):
            await trio.sleep(1)
            received = 0
            while received < 150_000:
                received += len(await slow.receive_some(50_000))
            assert server.connection_count == 1


async def test_idle_connections_are_closed(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running_server(connections_max_idle_ms=5000) as server, await server.connect() as client:
        assert await ask(client, "echo hello") == "hello"
        start = trio.current_time()
        assert await is_closed(client)
        assert 4 <= trio.current_time() - start <= 7
        await server.wait_connections(0)
    assert "closing the idle connection of 127.0.0.1:" in caplog.text


async def test_a_busy_connection_is_not_idle(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=3000) as server, await server.connect() as client:
        for number in range(10):
            await trio.sleep(1.9)
            assert await ask(client, f"echo {number}") == str(number)


async def test_a_connection_that_waits_for_its_answer_is_closed_as_idle(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=3000) as server, await server.connect() as client:
        await client.send_all(b"wait\n")
        await trio.sleep(2)
        assert server.protocol.waiting == 1
        start = trio.current_time()
        assert await is_closed(client)
        assert trio.current_time() - start < 4
        await server.wait_connections(0)
        assert server.protocol.waiting == 0


async def test_a_connection_that_is_never_idle_waits_without_end(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=-1) as server, await server.connect() as client:
        await client.send_all(b"wait\n")
        await trio.sleep(100)
        server.protocol.gate.set()
        assert await line_from(client) == b"done\n"


async def test_sweep_closes_a_connection_idle_after_half_a_request(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=3000) as server, await server.connect() as client:
        await client.send_all(b"echo hal")
        assert await is_closed(client)
        assert server.protocol.served == 0


async def test_connections_max_idle_ms_of_minus_one_closes_no_connection(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=-1) as server, await server.connect() as client:
        assert await ask(client, "echo hello") == "hello"
        await trio.sleep(100)
        assert await ask(client, "echo still") == "still"


async def test_an_idle_connection_gives_its_memory_back_once(clock: MockClock) -> None:
    async with running_server() as server, await server.connect() as client:
        assert await ask(client, "echo hello") == "hello"
        (connection,) = server.protocol.connections
        buffer = weakref.ref(connection.receive_buffer())
        await trio.sleep(9)
        assert (connection.released, buffer() is None) == (0, False)
        await trio.sleep(21)
        assert (connection.released, buffer() is None) == (1, True)
        assert await ask(client, "echo hello") == "hello"
        buffer = weakref.ref(connection.receive_buffer())
        await trio.sleep(30)
        assert (connection.released, buffer() is None) == (2, True)


async def test_a_connection_that_has_ended_is_not_kept_by_the_sweep(clock: MockClock) -> None:
    """It may have had the memory of a large request, and no other one may come for hours."""
    async with running_server() as server:
        async with await server.connect() as client:
            assert await ask(client, "echo hello") == "hello"
            await trio.sleep(3)
        kept = weakref.ref(server.protocol.connections.pop())
        await trio.sleep(3)
        gc.collect()
        assert kept() is None


def test_has_left_detects_a_closed_connection_with_unread_bytes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with PlainTransport.of(accepted) as transport:
            client.sendall(b"unread")
            assert not transport.has_left()
            client.close()
            wait_until(transport.has_left, "the end of the peer")


@pytest.mark.parametrize("behind", [b"", b"x", b"echo whole\n", b"echo whole\n" * 5000])
@pytest.mark.parametrize("leave", [trio.SocketStream.aclose, reset])
async def test_connection_notices_a_peer_that_leaves_while_its_request_waits(
    clock: MockClock, leave: Callable[[trio.SocketStream], object], behind: bytes
) -> None:
    """Whatever it sent behind the request that waits, and however much of that is unread."""
    async with running_server() as server:
        client = await server.connect()
        await client.send_all(b"wait\n")
        await trio.sleep(3)
        assert server.protocol.waiting == 1
        await client.send_all(behind)
        start = trio.current_time()
        if leave is reset:
            reset(client)
        else:
            await client.aclose()
        await server.wait_connections(0)
        assert trio.current_time() - start < 1.5
        assert server.protocol.waiting == 0


async def test_connection_executes_requests_received_before_the_peer_left(clock: MockClock) -> None:
    async with running_server() as server:
        client = await server.connect()
        await client.send_all(b"wait\n")
        await trio.sleep(3)
        await client.send_all(b"silent\necho one\nwait\nsilent\n")
        await client.aclose()
        await server.wait_connections(0)
        assert server.protocol.served == 5
        assert server.protocol.waiting == 0


async def test_sweep_ends_a_connection_whose_peer_left_many_waiting_requests(clock: MockClock) -> None:
    async with running_server(connections_max_idle_ms=5000) as server:
        client = await server.connect()
        await client.send_all(b"wait\n" * 1000)
        await client.aclose()
        start = trio.current_time()
        await server.wait_connections(0)
        assert trio.current_time() - start < 8


async def test_connection_sends_no_response_after_a_cancelled_one(clock: MockClock) -> None:
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"wait\necho behind\n")
        await client.send_eof()
        assert await is_closed(client)


async def test_connection_ends_when_the_peer_resets_during_a_response() -> None:
    async with running_server() as server:
        client = await server.connect()
        await client.send_all(b"big 50000000\n")
        await wait_all_tasks_blocked()
        reset(client)
        with trio.fail_after(DEADLINE_S):
            await server.wait_connections(0)


async def test_connection_leaves_no_unawaited_coroutine_when_the_peer_resets(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async with running_server() as server:
        client = await server.connect()
        await client.send_all(b"big 50000000\nwait\n")
        await wait_all_tasks_blocked()
        reset(client)
        with trio.fail_after(DEADLINE_S):
            await server.wait_connections(0)
        assert server.protocol.waiting == 0
    import gc

    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize("requests", [b"", b"echo half", b"echo whole\n", b"big 1000000\n", b"wait\n"])
async def test_server_closes_every_connection_exactly_once_after_churn(requests: bytes) -> None:
    async with running_server() as server:

        async def come_and_go(how: int) -> None:
            client = await server.connect()
            if requests:
                await client.send_all(requests)
            if how % 2:
                reset(client)
            else:
                await client.aclose()

        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for how in range(20):
                    nursery.start_soon(come_and_go, how)
        with trio.fail_after(DEADLINE_S):
            await server.wait_connections(0)
        async with await server.connect() as client:
            assert await ask(client, "echo hello") == "hello"
    assert all(connection.closed == 1 for connection in server.protocol.connections)


async def test_connection_with_endless_requests_yields_to_other_connections() -> None:
    """Requests that need no waiting and get no answer still have to share the loop."""
    async with running_server() as server, await server.connect() as greedy, await server.connect() as other:
        assert await ask(other, "echo hello") == "hello"
        await greedy.send_all(b"hog 20000\n" * 5000)
        before = server.protocol.served
        assert await ask(other, "echo me too") == "me too"
        assert server.protocol.served - before < 1000


# Limits


async def test_max_connections_per_ip_refuses_further_connections_of_an_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server(max_connections_per_ip=2) as server:
        clients = [await server.connect() for _ in range(2)]
        for client in clients:
            assert await ask(client, "echo hello") == "hello"
        async with await server.connect() as third:
            assert await is_closed(third)
        await clients.pop().aclose()
        await server.wait_connections(1)
        async with await server.connect() as third:
            assert await ask(third, "echo hello") == "hello"
        await clients.pop().aclose()
    assert "refusing a connection of 127.0.0.1:" in caplog.text
    assert "max.connections.per.ip" in caplog.text


async def test_max_connections_per_ip_holds_for_a_burst_of_connections() -> None:
    async with running_server(max_connections_per_ip=3) as server:
        clients = [await server.connect() for _ in range(20)]
        outcomes: list[bool] = []

        async def check(client: trio.SocketStream) -> None:
            try:
                outcomes.append(await ask(client, "echo hello") == "hello")
            except trio.BrokenResourceError:
                outcomes.append(False)

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(check, client)
        assert outcomes.count(True) == 3
        for client in clients:
            await client.aclose()


async def test_max_connections_per_ip_overrides_limit_an_address() -> None:
    overrides = {"max.connections.per.ip.overrides": "127.0.0.1:1"}
    async with running_server(**overrides) as server, await server.connect() as first:
        assert await ask(first, "echo hello") == "hello"
        async with await server.connect() as second:
            assert await is_closed(second)


async def test_max_connections_makes_further_connections_wait() -> None:
    async with running_server(max_connections=2) as server:
        clients = [await server.connect() for _ in range(3)]
        for client in clients[:2]:
            assert await ask(client, "echo hello") == "hello"
        with trio.move_on_after(0.05) as scope:
            await ask(clients[2], "echo hello")
        assert scope.cancelled_caught
        await clients[0].aclose()
        assert await line_from(clients[2]) == b"hello\n"
        for client in clients[1:]:
            await client.aclose()


async def test_max_connections_makes_connections_of_two_listeners_wait() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
    async with running_server(listeners=listeners, max_connections=1) as server:
        first = await server.connect()
        assert await ask(first, "echo hello") == "hello"
        served: list[str] = []

        async def come_and_go(listener: str) -> None:
            async with await server.connect(listener) as client:
                assert await ask(client, "echo waited") == "waited"
                served.append(listener)

        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as nursery:
                for listener in ("PLAINTEXT", "OTHER"):
                    nursery.start_soon(come_and_go, listener)
                await wait_all_tasks_blocked()
                assert served == []
                await first.aclose()
        assert sorted(served) == ["OTHER", "PLAINTEXT"]


async def test_max_connections_per_ip_overrides_match_ipv4_mapped_ipv6_addresses() -> None:
    """A listener on every address sees IPv4 clients as ::ffff:a.b.c.d."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no dual-stack sockets")
    overrides = {"max.connections.per.ip.overrides": "127.0.0.1:1"}
    async with running_server(listeners="PLAINTEXT://:0", **overrides) as server:
        port = server.bound["PLAINTEXT"][1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as first:
            assert await ask(first, "echo hello") == "hello"
            assert server.protocol.connections[0].peer.host == "127.0.0.1"
            async with await trio.open_tcp_stream("127.0.0.1", port) as second:
                assert await is_closed(second)


async def test_accept_retries_after_running_out_of_file_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED] * 5
    accept = socket.socket.accept

    def refuse_first(self: socket.socket) -> tuple[socket.socket, object]:
        if refusals:
            raise OSError(refusals.pop(), "refused")
        return accept(self)

    async with running_server() as server:
        monkeypatch.setattr(socket.socket, "accept", refuse_first)
        async with await server.connect() as client:
            with trio.fail_after(DEADLINE_S):
                assert await ask(client, "echo hello") == "hello"
    complaints = [record for record in caplog.records if "cannot accept connections" in record.getMessage()]
    assert len(complaints) == 1
    assert "ulimit -n" in caplog.text


# Stopping


async def finish(server: RunningServer, within: float = 20) -> None:
    """A graceful stop that has to be done well before `shutdown.timeout.ms` is over."""
    with trio.fail_after(within):
        await server.finish()


async def test_a_stop_ends_idle_connections_at_once() -> None:
    async with running_server() as server:
        clients = [await server.connect() for _ in range(5)]
        for client in clients:
            assert await ask(client, "echo hello") == "hello"
        await finish(server)
        for client in clients:
            assert await is_closed(client)


async def test_a_stop_takes_no_new_connection() -> None:
    async with running_server() as server:
        await finish(server)
        with pytest.raises(OSError, match=r"could not|all attempts|refused"):
            await server.connect()


async def test_finish_answers_requests_in_progress_before_closing(clock: MockClock) -> None:
    """However long it takes, and though the sweep looks for peers that left."""
    async with running_server() as server, await server.connect() as client:
        await client.send_all(b"wait\necho behind\n")
        await trio.sleep(0.1)

        async def open_gate() -> None:
            await trio.sleep(5)
            server.protocol.gate.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_gate)
            await finish(server, 20)
        assert [await line_from(client) for _ in range(2)] == [b"done\n", b"behind\n"]
        assert await is_closed(client)


async def test_finish_answers_requests_that_have_arrived() -> None:
    async with running_server() as server, await server.connect() as client:
        assert await ask(client, "echo hello") == "hello"
        await client.send_all(b"echo last\n")
        await finish(server)
        assert await line_from(client) == b"last\n"


async def test_one_who_connects_at_the_last_moment_does_not_hold_up_the_stop() -> None:
    async with running_server() as server, await server.connect() as busy:
        await busy.send_all(b"wait\n")
        await wait_all_tasks_blocked()
        late = await server.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish, server)
            await wait_all_tasks_blocked()
            server.protocol.gate.set()
        assert await line_from(busy) == b"done\n"
        await late.aclose()


async def test_server_run_when_cancelled_does_not_resume_a_partial_response() -> None:
    """At the deadline a slow reader gets nothing behind the part of its answer that it has."""
    async with running_server() as server, await server.connect() as slow:
        await slow.send_all(b"echo first\nbig 50000000\nwait\n")
        await wait_all_tasks_blocked()
        received = all_there_is(slow.socket)
        server.end()
        with trio.fail_after(DEADLINE_S):
            while chunk := await slow.receive_some(1_000_000):
                received += chunk
        assert received.startswith(b"first\n")
        assert len(received) < 50_000_000
        assert received.count(b"first") == 1


def all_there_is(sock: trio.socket.SocketType) -> bytearray:
    """What can be read without waiting; the sender has room again afterwards, but no time to use it."""
    received = bytearray()
    with socket.fromfd(sock.fileno(), sock.family, sock.type) as plain:
        while True:
            try:
                received += plain.recv(1_000_000)
            except BlockingIOError:
                return received
