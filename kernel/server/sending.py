"""Sending responses: bytes by `send`, file regions by `sendfile`, streamed bytes as they are computed.

It never blocks on a device or a peer.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

import trio

from tidelog.kernel.seams.storage import FileRegion
from tidelog.kernel.seams.wire import Parts, StreamedBytes

SENDFILE_CHUNK_BYTES = 1024 * 1024
"""Limit of one `sendfile`; also how far ahead of it a file is read into memory."""
LONG_BYTES = 64 * 1024
"""A response with a larger file region takes the peer a while to process."""
_NOT_IN_MEMORY = frozenset((FileRegion, StreamedBytes))


class Progress(Protocol):
    """A connection, marked active when the peer receives bytes, so that only a stuck peer counts as idle."""

    active_since_sweep: bool


def send_at_once(sock: socket.socket, parts: Parts) -> Parts:
    """Send what the socket takes at once; return the rest for `send_parts`, all of it unless it is in memory.

    Raises:
        OSError: the peer has closed the connection.
    """
    if not _NOT_IN_MEMORY.isdisjoint(map(type, parts)):
        return parts
    data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
    try:
        sent = sock.send(data)  # type: ignore[arg-type]
    except BlockingIOError:
        return [data]
    return [] if sent == len(data) else [memoryview(data)[sent:]]  # type: ignore[arg-type]


def is_long(parts: Parts) -> bool:
    """Return whether more than `LONG_BYTES` that are not in memory are among them."""
    return any(type(part) in _NOT_IN_MEMORY and part.size > LONG_BYTES for part in parts)  # type: ignore[union-attr]


async def send_parts(sock: socket.socket, parts: Parts, progress: Progress) -> None:
    """Send all parts in order, consecutive bytes in one call.

    Raises:
        OSError: the peer has closed the connection, or a file is shorter than its region.
    """
    pending: list[bytes | memoryview] = []
    for part in parts:
        if type(part) in _NOT_IN_MEMORY:
            if pending:
                await _send_bytes(sock, b"".join(pending), progress, socket.MSG_MORE)
                pending.clear()
            if type(part) is FileRegion:
                await _send_file(sock, part, progress)
            elif type(part) is StreamedBytes:
                await _send_streamed(sock, part, progress)
        else:
            pending.append(part)  # type: ignore[arg-type]
    if pending:
        data = pending[0] if len(pending) == 1 else b"".join(pending)
        await _send_bytes(sock, data, progress, 0)


async def _send_bytes(sock: socket.socket, data: bytes | memoryview, progress: Progress, flags: int) -> None:
    try:
        sent = sock.send(data, flags)
    except BlockingIOError:
        sent = 0
    if sent == len(data):
        return
    rest = memoryview(data)[sent:]
    while rest:
        await trio.lowlevel.wait_writable(sock)
        progress.active_since_sweep = True
        try:
            rest = rest[sock.send(rest, flags) :]
        except BlockingIOError:
            continue


async def _send_streamed(sock: socket.socket, streamed: StreamedBytes, progress: Progress) -> None:
    left = streamed.size
    while left > 0:
        piece = memoryview(await streamed.next_piece())[:left]
        progress.active_since_sweep = True
        left -= len(piece)
        await _send_bytes(sock, piece, progress, socket.MSG_MORE if left else 0)


async def _send_file(sock: socket.socket, region: FileRegion, progress: Progress) -> None:
    file, position, end = region.file, region.position, region.position + region.size
    out, source = sock.fileno(), file.fileno()
    resident_until = position
    while position < end:
        if position >= resident_until:
            resident_until = min(position + SENDFILE_CHUNK_BYTES, end)
            if not file.resident(position, resident_until - position):
                await trio.to_thread.run_sync(file.prefetch, position, resident_until - position)
        try:
            sent = os.sendfile(out, source, position, resident_until - position)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
            progress.active_since_sweep = True
            continue
        if sent == 0:
            raise OSError(
                f"a file ended at byte {position}, {end - position} bytes short of what was promised"
            )
        position += sent
