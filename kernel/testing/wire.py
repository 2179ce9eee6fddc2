"""Driving a wire codec in a test as the server does, without a socket."""

from __future__ import annotations

from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.seams.wire import (
    ConnectionFinished,
    Parts,
    Peer,
    ProtocolViolation,
    StreamedBytes,
    UntilPeerSends,
    WireConnection,
)

PEER = Peer("192.0.2.1", 40_000, "TEST")
"""The client of a connection in a test."""


class GrantedMemory:
    """A share of the memory for requests that grants up to a limit.

    Attributes:
        held_bytes: what the connection has of it
        limit_bytes: what it can have
        refusals: how often it was refused more
    """

    def __init__(self, limit_bytes: int = 2**40) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.refusals = 0

    def resize(self, size_bytes: int) -> bool:
        """Take so many bytes in all, or refuse."""
        if size_bytes > self.held_bytes and size_bytes > self.limit_bytes:
            self.refusals += 1
            return False
        self.held_bytes = size_bytes
        return True


class WireDriver:
    """Moves bytes between a test and the protocol state of a connection.

    Attributes:
        sent: what the connection has sent
        ended: why the connection has ended, None while it has not
        waiting: the step that waits until the peer sends something, None without one
    """

    def __init__(self, connection: WireConnection) -> None:
        self.connection = connection
        self.sent = bytearray()
        self.ended: ProtocolViolation | ConnectionFinished | None = None
        self.waiting: UntilPeerSends | None = None

    async def feed(self, data: bytes, *, piece_bytes: int | None = None) -> int:
        """Let the peer send bytes, in pieces, and serve all that is whole after each of them.

        Return how many were taken: fewer once the connection has ended, or has no memory for more.
        """
        taken = 0
        while taken < len(data) and self.ended is None:
            count = self._receive(data[taken:], piece_bytes)
            if not count:
                break
            taken += count
            await self.serve()
        return taken

    def _receive(self, data: bytes, piece_bytes: int | None) -> int:
        if self.waiting is not None:
            self.waiting = None
            assert self.connection.next_step() is None, "a wait was ended, and the bytes are not read first"
        buffer = self.connection.receive_buffer()
        count = min(len(buffer), len(data), piece_bytes or len(data))
        if count:
            buffer[:count] = data[:count]
            self.connection.bytes_received(count)
        return count

    async def serve(self) -> None:
        """Serve what has arrived, up to a step that waits for the peer, or for bytes."""
        try:
            while self.ended is None:
                step = self.connection.next_step()
                if step is None:
                    return
                if isinstance(step, UntilPeerSends):
                    self.waiting = step
                    return
                await self._send(step if isinstance(step, list) else await step)
        except (ProtocolViolation, ConnectionFinished) as end:
            self.ended = end

    async def wait(self) -> None:
        """Let the step that waits end by itself, send what it has, and serve on."""
        assert self.waiting is not None, "no step waits"
        step, self.waiting = self.waiting, None
        await self._send(await step.wait())
        await self.serve()

    async def _send(self, parts: Parts) -> None:
        for part in parts:
            if not isinstance(part, StreamedBytes):
                self.sent += region_bytes(part)
                continue
            left = part.size
            while left > 0:
                piece = (await part.next_piece())[:left]
                assert piece, "a piece without a byte"
                self.sent += piece
                left -= len(piece)

    def take_sent(self) -> bytes:
        """Return what was sent since the last call."""
        sent = bytes(self.sent)
        self.sent.clear()
        return sent
