"""Sending: bytes and file regions in order, by slow peers, cold files and files that end too early."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import IO, cast

import pytest
import trio

from tests.turns import turns_of_another_task
from tidelog.kernel.network.sending import (
    LONG_BYTES,
    SENDFILE_CHUNK_BYTES,
    FileNotSent,
    is_long,
    send_at_once,
    send_parts,
)
from tidelog.kernel.network.transport import PlainTransport
from tidelog.kernel.network.turns import PIECE_BYTES
from tidelog.kernel.seams.storage import FileRegion
from tidelog.kernel.seams.transport import Transport
from tidelog.kernel.seams.wire import Parts, StreamedBytes

CONTENT = (bytes(range(251)) * 12_000)[:3_000_000]


class LogFile:
    """A file that says whether it is in memory."""

    def __init__(self, content: bytes, *, cold: bool = False) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._file.write(content)
        self._file.flush()
        self._cold = cold
        self.asked: list[tuple[int, int]] = []
        self.prefetched: list[tuple[int, int]] = []
        self.errors: list[OSError] = []

    def fileno(self) -> int:
        """The descriptor."""
        return self._file.fileno()

    def resident(self, position: int, size: int) -> bool:
        """Not when it is cold."""
        self.asked.append((position, size))
        return not self._cold

    def prefetch(self, position: int, size: int) -> None:
        """Noted."""
        self.prefetched.append((position, size))

    def report_error(self, error: OSError) -> None:
        """Noted."""
        self.errors.append(error)

    def close(self) -> None:
        """Of no use any more."""
        self._file.close()


class Sender:
    """Notes that the peer took something, and how often it gave way to others."""

    def __init__(self, *, shares_turns: bool = False) -> None:
        self.active_since_sweep = False
        self.shares_turns = shares_turns
        self.gave_way = 0

    async def give_way(self) -> None:
        """Count."""
        self.gave_way += 1
        await trio.lowlevel.checkpoint()


@contextmanager
def a_file(content: bytes = CONTENT, *, cold: bool = False) -> Generator[LogFile]:
    """A file for the length of a block."""
    file = LogFile(content, cold=cold)
    try:
        yield file
    finally:
        file.close()


@contextmanager
def socket_pair() -> Generator[tuple[PlainTransport, socket.socket]]:
    """Two connected sockets with small buffers, neither of which blocks."""
    ours, theirs = map(PlainTransport.of, socket.socketpair())
    with ours, theirs:
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        yield ours, theirs


async def sent(parts: Parts, sender: Sender | None = None) -> bytes:
    """What the peer of these parts receives."""
    received = bytearray()

    async def read_all(sock: socket.socket) -> None:
        while True:
            try:
                chunk = sock.recv(50_000)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(sock)
                continue
            if not chunk:
                return
            received.extend(chunk)
            await trio.lowlevel.checkpoint()

    with socket_pair() as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_all, theirs)
            await send_parts(ours, parts, sender or Sender())
            ours.shutdown(socket.SHUT_WR)
    return bytes(received)


async def test_send_parts_of_an_empty_list_sends_nothing() -> None:
    assert await sent([]) == b""


async def test_send_parts_joins_bytes_and_memoryviews() -> None:
    assert await sent([b"one ", memoryview(b"two "), b"", b"three"]) == b"one two three"


async def test_send_parts_sends_more_bytes_than_the_socket_buffer_holds() -> None:
    assert await sent([b"head", memoryview(CONTENT), b"tail"]) == b"head" + CONTENT + b"tail"


@pytest.mark.parametrize("parts", [[b"all"], [memoryview(b"all")], [b"a", memoryview(b"l"), b"", b"l"]])
def test_send_at_once_sends_everything_that_fits_without_waiting(parts: Parts) -> None:
    with socket_pair() as (ours, theirs):
        assert send_at_once(ours, parts) == []
        assert theirs.recv(100) == b"all"


def test_send_at_once_returns_the_rest_that_does_not_fit() -> None:
    parts: Parts = [CONTENT[:1000], memoryview(CONTENT)[1000:]]
    with socket_pair() as (ours, theirs):
        left = b"".join(cast("list[bytes]", send_at_once(ours, parts)))
        assert 0 < len(left) < len(CONTENT)
        assert send_at_once(ours, [b"more"]) == [b"more"]
        received = bytearray()
        while len(received) + len(left) < len(CONTENT):
            received += theirs.recv(50_000)
    assert received + left == CONTENT


def test_send_at_once_returns_all_parts_if_one_is_a_file_region() -> None:
    with a_file() as file, socket_pair() as (ours, theirs):
        parts: Parts = [b"head", FileRegion(file, 0, 10)]
        assert send_at_once(ours, parts) is parts
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.parametrize(
    ("position", "size"), [(0, 0), (0, 1), (100, 5000), (0, len(CONTENT)), (77, 2_500_000)]
)
async def test_send_parts_sends_a_file_region_between_bytes(position: int, size: int) -> None:
    with a_file() as file:
        received = await sent([b"head", FileRegion(file, position, size), b"tail"])
    assert received == b"head" + CONTENT[position : position + size] + b"tail"


def test_what_is_long() -> None:
    with a_file() as file:
        assert not is_long([b"x" * LONG_BYTES * 2, FileRegion(file, 0, LONG_BYTES)])
        assert is_long([b"head", FileRegion(file, 0, LONG_BYTES + 1), b"tail"])


async def test_send_parts_keeps_the_order_of_file_regions_and_bytes() -> None:
    with a_file() as one, a_file(b"another file") as other:
        parts: Parts = [
            FileRegion(one, 10, 20),
            b"a",
            b"b",
            FileRegion(other, 8, 4),
            FileRegion(one, 0, 3),
            b"c",
        ]
        assert await sent(parts) == CONTENT[10:30] + b"abfile" + CONTENT[:3] + b"c"


class CountingSocket:
    """A socket that notes the size of all that is sent, and whether more was said to follow."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.sends_files = True
        self.fileno = sock.fileno
        self.sends: list[tuple[int, bool]] = []

    def send(self, data: bytes, flags: int = 0) -> int:
        sent = self._sock.send(data, flags)
        self.sends.append((sent, bool(flags & socket.MSG_MORE)))
        return sent


async def test_send_parts_sends_a_short_region_in_memory_with_what_is_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer is woken once, by the whole response."""
    monkeypatch.delattr(os, "sendfile")
    with a_file() as file, socket_pair() as (ours, theirs):
        counting = CountingSocket(ours)
        await send_parts(cast("Transport", counting), [b"head", FileRegion(file, 7, 100), b"tail"], Sender())
        assert counting.sends == [(108, False)]
        assert theirs.recv(1000) == b"head" + CONTENT[7:107] + b"tail"


async def test_send_parts_reads_few_short_regions_ahead_and_tells_the_system_what_follows() -> None:
    """The system holds back what more is to follow, for a fifth of a second if nothing comes."""
    with (
        a_file() as file,
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as ours,
        listening.accept()[0] as theirs,
    ):
        ours.setblocking(False)
        counting, region = CountingSocket(ours), FileRegion(file, 0, LONG_BYTES)
        await send_parts(cast("Transport", counting), [b"head", region, region], Sender())
        assert counting.sends == [(4 + LONG_BYTES, True), (LONG_BYTES, False)]
        received = theirs.recv(4 + 2 * LONG_BYTES, socket.MSG_WAITALL)
        assert received == b"head" + CONTENT[:LONG_BYTES] * 2


async def test_send_parts_sends_a_short_region_that_is_not_in_memory_as_a_file() -> None:
    with a_file(cold=True) as file:
        assert await sent([b"head", FileRegion(file, 7, 100), b"tail"]) == b"head" + CONTENT[7:107] + b"tail"
        assert file.prefetched == [(7, 100)]


@pytest.mark.parametrize(
    "regions", [[(0, 10)] * 50, [(0, 10 * SENDFILE_CHUNK_BYTES)]], ids=["many", "a large one"]
)
async def test_send_parts_of_a_peer_that_takes_all_at_once_takes_turns(
    regions: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = count()
    monkeypatch.setattr("tidelog.kernel.network.sending.perf_counter", lambda: float(next(times)))
    # Sockets that take everything: nothing is waited for.
    monkeypatch.setattr(PlainTransport, "send_region", lambda _self, _source, _at, most: most)
    with a_file(b"0123456789") as file, socket_pair() as (ours, _):
        async with turns_of_another_task() as turns:
            await send_parts(ours, [FileRegion(file, *each) for each in regions], Sender())
    assert turns.count >= 5


async def test_send_parts_does_not_prefetch_a_resident_file() -> None:
    with a_file() as file:
        await sent([FileRegion(file, 5, 2_500_000)])
        assert file.prefetched == []


async def test_send_parts_prefetches_a_cold_file_chunk_by_chunk() -> None:
    """Off the event loop, and no more than is about to be sent."""
    with a_file(cold=True) as file:
        assert await sent([FileRegion(file, 5, 2_500_000)]) == CONTENT[5:2_500_005]
        assert file.prefetched == [
            (5, SENDFILE_CHUNK_BYTES),
            (5 + SENDFILE_CHUNK_BYTES, SENDFILE_CHUNK_BYTES),
            (5 + 2 * SENDFILE_CHUNK_BYTES, 2_500_000 - 2 * SENDFILE_CHUNK_BYTES),
        ]


def sendfile_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets how much each `sendfile` was asked to send."""
    most: list[int] = []
    sendfile = os.sendfile

    def observed(out: int, source: int, offset: int, count: int) -> int:
        most.append(count)
        return sendfile(out, source, offset, count)

    monkeypatch.setattr(os, "sendfile", observed)
    return most


@pytest.mark.parametrize(
    ("sizes", "first_call"),
    [
        ([SENDFILE_CHUNK_BYTES], SENDFILE_CHUNK_BYTES),
        ([SENDFILE_CHUNK_BYTES // 2] * 2, SENDFILE_CHUNK_BYTES // 2),
        ([SENDFILE_CHUNK_BYTES // 2, SENDFILE_CHUNK_BYTES // 2 + 1], PIECE_BYTES),
        ([2 * SENDFILE_CHUNK_BYTES], PIECE_BYTES),
    ],
)
async def test_send_parts_sends_files_in_pieces_if_the_peer_reads_before_all_is_sent(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], first_call: int
) -> None:
    most = sendfile_sizes(monkeypatch)
    with a_file() as file:
        await sent([FileRegion(file, 5, size) for size in sizes])
    assert max(most) == first_call


async def test_send_parts_gives_way_between_pieces_of_a_file_if_turns_are_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, most = Sender(shares_turns=True), sendfile_sizes(monkeypatch)
    with a_file() as file:
        assert await sent([FileRegion(file, 5, 2_500_000)], sender) == CONTENT[5:2_500_005]
    assert max(most) == PIECE_BYTES
    assert sender.gave_way >= 2_500_000 // PIECE_BYTES


async def test_send_parts_keeps_its_turn_if_nobody_shares_it_or_nothing_is_left() -> None:
    alone, short = Sender(), Sender(shares_turns=True)
    with a_file() as file:
        await sent([FileRegion(file, 0, len(CONTENT))], alone)
        await sent([FileRegion(file, 0, 1000)], short)
    assert (alone.gave_way, short.gave_way) == (0, 0)


@pytest.mark.parametrize(
    ("call", "size"),
    [("sendfile", LONG_BYTES + 1), ("resident", LONG_BYTES + 1), ("pread", 1), ("resident", 1)],
)
async def test_send_parts_reports_an_error_of_the_disk_to_the_file(
    monkeypatch: pytest.MonkeyPatch, call: str, size: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with a_file() as file, socket_pair() as (ours, _):
        monkeypatch.setattr(file if call == "resident" else os, call, refuse)
        with pytest.raises(FileNotSent, match=r"a file cannot be read: .*Input/output error"):
            await send_parts(ours, [FileRegion(file, 0, size)], Sender())
        assert [error.errno for error in file.errors] == [errno.EIO]


async def test_send_parts_raises_file_not_sent_for_a_file_shorter_than_its_region() -> None:
    with (
        a_file(b"short") as file,
        socket_pair() as (ours, _),
        pytest.raises(FileNotSent, match="a file ended at byte 5, 95 bytes short of what was promised"),
    ):
        await send_parts(ours, [FileRegion(file, 0, 100)], Sender())


async def test_a_peer_that_takes_something_shows_progress() -> None:
    quick, slow = Sender(), Sender()
    await sent([b"small"], quick)
    await sent([CONTENT], slow)
    assert (quick.active_since_sweep, slow.active_since_sweep) == (False, True)
    with a_file() as file:
        slow = Sender()
        await sent([FileRegion(file, 0, len(CONTENT))], slow)
        assert slow.active_since_sweep


async def test_a_peer_that_left_ends_the_sending() -> None:
    with a_file() as file, socket_pair() as (ours, theirs):
        theirs.close()
        for parts in ([b"bytes" * 100_000], [FileRegion(file, 0, len(CONTENT))]):
            with pytest.raises(OSError, match=r"Broken pipe|reset"):
                await send_parts(ours, list(parts), Sender())


def streamed(size: int, *pieces: bytes) -> StreamedBytes:
    """Bytes that come in these pieces."""
    waiting = list(pieces)

    async def next_piece() -> bytes:
        await trio.lowlevel.checkpoint()
        return waiting.pop(0)

    return StreamedBytes(size, next_piece)


async def test_send_parts_streams_bytes_up_to_their_size() -> None:
    with socket_pair() as (server, peer):
        sender = Sender()
        await send_parts(server, [b"head", streamed(7, b"ab", b"cdefghi"), streamed(1, b"x"), b"!"], sender)
        assert sender.active_since_sweep
        assert peer.recv(100) == b"headabcdefgx!"


def test_send_at_once_leaves_streamed_bytes_to_send_parts() -> None:
    with socket_pair() as (server, _):
        parts: Parts = [b"head", streamed(1, b"x")]
        assert send_at_once(server, parts) is parts
        assert not is_long(parts)
        assert is_long([streamed(LONG_BYTES + 1)])
