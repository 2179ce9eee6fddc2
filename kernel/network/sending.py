"""Sending of responses: bytes by `send`, file regions by `sendfile`, and streamed bytes as they are computed.

Sending never blocks the event loop on a device or a peer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Generator
from functools import partial
from time import perf_counter
from typing import Final, Protocol, TypeGuard

import trio

from tidelog.kernel.network.turns import PIECE_BYTES
from tidelog.kernel.pace import STEP_SECONDS
from tidelog.kernel.seams.storage import FileRegion
from tidelog.kernel.seams.transport import Transport
from tidelog.kernel.seams.wire import Parts, StreamedBytes

UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOTCONN})
SENDFILE_CHUNK_BYTES = 1024 * 1024
"""Limit of one `sendfile`; also how far ahead of it a file is read into memory."""
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""That more follows soon, 0 where the system has no such flag (macOS)."""
SHORT_BYTES: Final = 4 * 1024
"""A response of so many bytes in memory is sent at once, and the peer has it soon."""
LONG_BYTES = 64 * 1024
"""A response with a larger file region takes the peer a while to process. A region that is not larger is read
and sent with what is around it: that is faster than `sendfile` between two sends, and wakes the peer once."""
JOINED_BYTES = 64 * 1024
"""Parts that are sent together have up to a short region more, so little is read ahead for a slow peer."""
_NOT_IN_MEMORY = frozenset((FileRegion, StreamedBytes))


class FileNotSent(Exception):
    """A part of a file could not be read to be sent: the response ends in the middle."""


class Sender(Protocol):
    """A connection: marked active when the peer receives bytes, so that only a stuck peer counts as idle."""

    active_since_sweep: bool

    @property
    def shares_turns(self) -> bool:
        """Whether other connections get short answers meanwhile."""
        ...

    async def give_way(self) -> None:
        """Let them be served."""
        ...


def send_at_once(transport: Transport, parts: Parts) -> Parts:
    """Send what the socket takes at once; return the rest for `send_parts`, all of it unless it is in memory.

    Raises:
        OSError: the peer has closed the connection.
    """
    if not _NOT_IN_MEMORY.isdisjoint(map(type, parts)):
        return parts
    data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
    try:
        sent = transport.send(data)  # type: ignore[arg-type]
    except BlockingIOError:
        return [data]
    return [] if sent == len(data) else [memoryview(data)[sent:]]  # type: ignore[arg-type]


def is_short(step: Parts | Awaitable[Parts] | None) -> TypeGuard[Parts]:
    """Return whether it is a response of up to `SHORT_BYTES`, in memory and in one piece, or none is sent."""
    if type(step) is not list:
        return False
    return not step or (len(step) == 1 and type(step[0]) is bytes and len(step[0]) <= SHORT_BYTES)


def is_long(parts: Parts) -> bool:
    """Return whether more than `LONG_BYTES` that are not in memory are among them."""
    return any(type(part) in _NOT_IN_MEMORY and part.size > LONG_BYTES for part in parts)  # type: ignore[union-attr]


async def send_parts(transport: Transport, parts: Parts, sender: Sender) -> None:
    """Send all parts in order, consecutive bytes in one call.

    Raises:
        OSError: the peer has closed the connection.
        FileNotSent: the disk refused, or a file is shorter than its region.
    """
    pending: list[bytes | memoryview] = []
    pending_bytes = at_once = 0
    turn_ends = perf_counter() + STEP_SECONDS
    for part in parts:
        if type(part) in _NOT_IN_MEMORY and perf_counter() >= turn_ends:
            # A response may have thousands of small regions, and a peer that takes each at once.
            await trio.lowlevel.checkpoint()
            turn_ends = perf_counter() + STEP_SECONDS
        content = _content_if_short(part) if type(part) is FileRegion else part
        is_long = type(content) in _NOT_IN_MEMORY
        # Not after the last part: the system waits for more.
        if pending and (is_long or pending_bytes > JOINED_BYTES):
            await _send_bytes(transport, b"".join(pending), sender, _MORE)
            pending.clear()
            pending_bytes = 0
        if not is_long:
            pending.append(content)  # type: ignore[arg-type]
            pending_bytes += len(content)  # type: ignore[arg-type]
        elif type(content) is FileRegion:
            with _errors_of(content):
                at_once = at_once or _bytes_at_once(parts)
                await _send_file(transport, content, sender, at_once)
        elif type(content) is StreamedBytes:
            await _send_streamed(transport, content, sender)
    if pending:
        data = pending[0] if len(pending) == 1 else b"".join(pending)
        await _send_bytes(transport, data, sender, 0)


def _content_if_short(region: FileRegion) -> bytes | FileRegion:
    """Return the bytes of a region up to `LONG_BYTES` that are in memory; any other region as it is."""
    size = region.size
    if size > LONG_BYTES:
        return region
    with _errors_of(region):
        if not region.file.resident(region.position, size):
            return region
        content = os.pread(region.file.fileno(), size, region.position)
    # What is missing is reported where the rest is looked for.
    return content if len(content) == size else region


@contextlib.contextmanager
def _errors_of(region: FileRegion) -> Generator[None]:
    """Report errors of the disk to the file, and raise them as `FileNotSent`."""
    try:
        yield
    except OSError as error:
        if is_about_the_peer(error):
            raise
        region.file.report_error(error)
        raise FileNotSent(f"a file cannot be read: {error}") from error


async def _send_bytes(transport: Transport, data: bytes | memoryview, sender: Sender, flags: int) -> None:
    try:
        sent = transport.send(data, flags)
    except BlockingIOError:
        sent = 0
    if sent == len(data):
        return
    rest = memoryview(data)[sent:]
    while rest:
        await transport.wait_writable()
        # The socket takes more, so the peer has taken some: it is slow, but not stuck.
        sender.active_since_sweep = True
        try:
            rest = rest[transport.send(rest, flags) :]
        except BlockingIOError:
            continue


async def _send_streamed(transport: Transport, streamed: StreamedBytes, sender: Sender) -> None:
    left = streamed.size
    while left > 0:
        piece = memoryview(await streamed.next_piece())[:left]
        sender.active_since_sweep = True
        left -= len(piece)
        await _send_bytes(transport, piece, sender, _MORE if left else 0)


def _bytes_at_once(parts: Parts) -> int:
    """Return how much of a file one call sends.

    What fits into the peer's socket buffer is sent fastest in one call. Of more the peer reads the beginning
    meanwhile, and one long call wakes it for each 64 KB: that takes up to 1.5 times the processor time.
    """
    in_files = sum(part.size for part in parts if type(part) is FileRegion)
    return PIECE_BYTES if in_files > SENDFILE_CHUNK_BYTES else SENDFILE_CHUNK_BYTES


async def _send_file(transport: Transport, region: FileRegion, sender: Sender, at_once: int) -> None:
    file, position, end = region.file, region.position, region.position + region.size
    send_region = transport.send_region if transport.sends_files else partial(_send_read, transport)
    source = file.fileno()
    resident_until = position
    turn_ends = perf_counter() + STEP_SECONDS
    while position < end:
        if position >= resident_until:
            # `sendfile` would wait for the device on the event loop, so each chunk is in memory before it is
            # sent.
            resident_until = min(position + SENDFILE_CHUNK_BYTES, end)
            if not file.resident(position, resident_until - position):
                await trio.to_thread.run_sync(file.prefetch, position, resident_until - position)
        shared = sender.shares_turns
        most = PIECE_BYTES if shared else at_once
        sent = send_region(source, position, min(resident_until - position, most))
        if sent is None:
            await transport.wait_writable()
            sender.active_since_sweep = True
            continue
        # The head of the response has promised the size: without an end the peer would take the next response
        # for these bytes.
        if sent == 0:
            raise OSError(
                errno.ENODATA,
                f"a file ended at byte {position}, {end - position} bytes short of what was promised",
            )
        position += sent
        if shared and position < end:
            await sender.give_way()
        elif perf_counter() >= turn_ends:
            await trio.lowlevel.checkpoint()
            turn_ends = perf_counter() + STEP_SECONDS


def _send_read(transport: Transport, file: int, position: int, most: int) -> int | None:
    """Send bytes of a file that is in memory as `Transport.send_region` does, where that is not there."""
    content = os.pread(file, min(most, PIECE_BYTES), position)
    try:
        return transport.send(content) if content else 0
    except BlockingIOError:
        return None


def is_about_the_peer(error: OSError) -> bool:
    """Whether the peer or the way to it failed, and not a disk or something else of the broker's own."""
    return isinstance(error, ConnectionError | TimeoutError) or error.errno in UNREACHABLE
