"""Framing of responses: an int32 length and that many bytes (Kafka protocol guide, "Network").

Small responses are received into one buffer that is reused, and copied out of it. A response longer than the
bytes that have arrived gets a buffer of its own, into which the rest is received. That buffer grows with the
bytes that arrive, so that a large length alone allocates nothing. A reader of a log gets one long response
after the other, and new memory for each takes more time than to receive it: so buffers of former responses
are used again as soon as no view of them is left.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

READ_BYTES: Final = 64 * 1024
"""Most bytes that one read takes while no long response is being received."""
FIRST_STEP_BYTES: Final = 1024 * 1024
"""Initial size of the buffer of a long response; it doubles whenever it is full."""
SPARES: Final = 8
"""Buffers that are kept: what sends responses on has several of them while it receives the next one."""
MOST_SPARE_BYTES: Final = 32 * 1024 * 1024
"""Of all that are kept; each has `FIRST_STEP_BYTES` at least, or it would have to grow again."""
LEAST_RESPONSE_BYTES: Final = 4
"""Smallest length of a response: its correlation id."""

# With which Apache Kafka's listeners with TLS answer what is none.
_TLS_ALERT: Final = b"\x15\x03"
_LENGTH: Final = struct.Struct(">i")


class BadLength(Exception):
    """The length of a response is below the least or above the limit."""


class ResponseFrames:
    """Split received bytes into frames (responses without their length).

    Attributes:
        least_frame_bytes: the smallest length; tokens of SASL without headers may be empty
    """

    def __init__(self, max_frame_bytes: int) -> None:
        self.least_frame_bytes = LEAST_RESPONSE_BYTES
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray(READ_BYTES)
        self._start = 0
        self._end = 0
        self._long: bytearray | None = None
        self._long_length = 0
        self._long_filled = 0
        self._spares: deque[bytearray] = deque()
        self._room = memoryview(b"")

    @property
    def is_empty(self) -> bool:
        """Return whether no byte of an incomplete response is buffered."""
        return self._long is None and self._start == self._end

    def room(self) -> memoryview:
        """Return a writable buffer for the next bytes, at least one byte long, valid until `received`."""
        # First, since a bytearray of which there is a view cannot grow.
        self._room.release()
        if self._long is None:
            self._compact()
            self._room = memoryview(self._buffer)[self._end :]
        else:
            self._grow(self._long)
            self._room = memoryview(self._long)[self._long_filled : self._long_length]
        return self._room

    def bytes_received(self, count: int) -> None:
        """Process the first `count` bytes of the last `room`, which were received."""
        self._room.release()
        if self._long is None:
            self._end += count
        else:
            self._long_filled += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole response without its length; None while bytes are missing.

        Its bytes stay as they are for as long as it or another view of them is there.

        Raises:
            BadLength: the length is below the least or above the limit.
        """
        if self._long is not None:
            return self._finished_long(self._long)
        start = self._start + _LENGTH.size
        if self._end < start:
            return None
        length = self._checked_length()
        if self._end < start + length:
            self._begin_long(start, length)
            return None
        self._start = start + length
        return memoryview(bytes(memoryview(self._buffer)[start : self._start]))

    def _checked_length(self) -> int:
        (length,) = _LENGTH.unpack_from(self._buffer, self._start)
        if not self.least_frame_bytes <= length <= self._max_frame_bytes:
            speaks_tls = length.to_bytes(4, "big", signed=True).startswith(_TLS_ALERT)
            hint = "; it looks like TLS: set security_protocol to SSL or SASL_SSL" if speaks_tls else ""
            raise BadLength(
                f"a response of {length} bytes is announced, {self.least_frame_bytes} to "
                f"{self._max_frame_bytes} are possible{hint}"
            )
        return int(length)

    def _begin_long(self, start: int, length: int) -> None:
        arrived = self._end - start
        self._long = self._free_spare() or bytearray(min(length, max(FIRST_STEP_BYTES, arrived)))
        self._long[:arrived] = self._buffer[start : self._end]
        self._long_length, self._long_filled = length, arrived
        self._start = self._end = 0

    def _finished_long(self, frame: bytearray) -> memoryview | None:
        if self._long_filled < self._long_length:
            return None
        self._long = None
        if FIRST_STEP_BYTES <= len(frame) <= MOST_SPARE_BYTES:
            # It is in use until the caller has dropped the frame: `_free_spare` takes it only then.
            self._spares.append(frame)
            while len(self._spares) > SPARES or sum(map(len, self._spares)) > MOST_SPARE_BYTES:
                self._spares.popleft()
        return memoryview(frame)[: self._long_length]

    def _free_spare(self) -> bytearray | None:
        """Take a buffer of which no view is left."""
        for index, spare in enumerate(self._spares):
            if _is_free(spare):
                del self._spares[index]
                return spare
        return None

    def _grow(self, frame: bytearray) -> None:
        if self._long_filled == len(frame):
            frame.extend(bytes(min(len(frame), self._long_length - len(frame))))

    def _compact(self) -> None:
        """Move an incomplete length to the start of the buffer; whole frames were taken out before."""
        if self._start:
            pending = self._buffer[self._start : self._end]
            self._buffer[: len(pending)] = pending
            self._start, self._end = 0, len(pending)


def _is_free(buffer: bytearray) -> bool:
    """Return whether no view of the buffer is left: only then its size can change."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
