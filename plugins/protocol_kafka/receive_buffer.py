"""Receive buffer of one connection: frames are parsed where the socket wrote them, without a copy.

A frame is an int32 length and that many bytes (Kafka protocol guide, "Network"). The buffer starts small,
grows to the largest frame that the peer sends, and shrinks again when the connection idles. It grows as the
bytes arrive: a length alone costs nothing.
"""

from __future__ import annotations

import struct

from tidelog.kernel.seams.wire import ProtocolViolation

INITIAL_BYTES = 4 * 1024
"""Initial size: enough for the first requests of a connection, and small for thousands of idle clients."""
GROWN_BYTES = 128 * 1024
"""First larger size: several pipelined requests in one read."""
GROWTH = 4
"""Factor between the size of the buffer and the bytes of a larger frame that have arrived."""
MAX_RETAINED_BYTES = 4 * 1024 * 1024
"""A buffer larger than this is released as soon as it is empty."""
LENGTH_BYTES = 4
TLS_RECORD_TYPES = range(20, 24)
TLS_MAJOR_VERSION = 3

_LENGTH = struct.Struct(">i")


class ReceiveBuffer:
    """Received bytes, from the first one that is not consumed yet."""

    __slots__ = ("_end", "_max_frame_bytes", "_start", "_view")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._start = 0
        self._end = 0

    def room(self) -> memoryview:
        """Return a writable buffer behind the received bytes, at least one byte long."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._view) > MAX_RETAINED_BYTES:
                self._replace(GROWN_BYTES)
            return self._view
        needed, size = self._frame_bytes_or(LENGTH_BYTES), len(self._view)
        too_far = self._start + needed > size and (needed <= size or size < GROWN_BYTES)
        if too_far or self._end == size:
            self._make_room(needed)
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """Note that the first `count` bytes of the last `room` were received."""
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its length, None while bytes are missing.

        The view stays valid until `room` is called again.

        Raises:
            ProtocolViolation: the length is negative or beyond `socket.request.max.bytes`.
        """
        start = self._start
        available = self._end - start
        if available < LENGTH_BYTES:
            return None
        (length,) = _LENGTH.unpack_from(self._view, start)
        if not 0 <= length <= self._max_frame_bytes:
            guess = _other_protocol(bytes(self._view[start : start + LENGTH_BYTES]))
            raise ProtocolViolation(
                f"a request of {length} bytes is announced, "
                f"socket.request.max.bytes={self._max_frame_bytes}{guess}"
            )
        if available < LENGTH_BYTES + length:
            return None
        self._start = start + LENGTH_BYTES + length
        return self._view[start + LENGTH_BYTES : self._start]

    def release_memory(self) -> None:
        """Replace a large buffer by a small one if it is empty."""
        if self._start == self._end and len(self._view) > INITIAL_BYTES:
            self._replace(INITIAL_BYTES)

    def _frame_bytes_or(self, unknown: int) -> int:
        """Return the size of the frame that has begun, with its length; `unknown` while that is missing."""
        if self._end - self._start < LENGTH_BYTES:
            return unknown
        return LENGTH_BYTES + int(_LENGTH.unpack_from(self._view, self._start)[0])

    def _make_room(self, needed: int) -> None:
        pending = self._end - self._start
        if needed <= len(self._view) and pending <= len(self._view) // 2:
            self._view[:pending] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, pending
        else:
            self._replace(max(GROWN_BYTES, 2 * pending, min(needed, GROWTH * pending)))

    def _replace(self, size: int) -> None:
        """Move to a new buffer; frames that are still in use keep the old one."""
        pending = self._view[self._start : self._end]
        self._view = memoryview(bytearray(size))
        self._view[: len(pending)] = pending
        self._start, self._end = 0, len(pending)


def _other_protocol(head: bytes) -> str:
    """Describe the protocol of a peer that came to this port by mistake, if its first bytes show it."""
    if head[0] in TLS_RECORD_TYPES and head[1] == TLS_MAJOR_VERSION:
        return "; it looks like TLS, and this listener speaks without"
    if head.strip().isalpha() and head.isupper():
        return "; it looks like HTTP, and this listener speaks Kafka's protocol"
    return ""
