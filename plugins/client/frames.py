"""Cuts the broker's bytes into responses: an int32 length and that many bytes (Kafka protocol guide,
"Network").

Small responses arrive through one buffer that is used again and again, and are copied out of it. A response
that is longer than what has arrived gets memory of its own, and the rest is received straight into it. That
memory grows with what arrives, so that a length alone costs the client nothing.
"""

from __future__ import annotations

import struct
from typing import Final

READ_BYTES: Final = 64 * 1024
"""The most that one read takes while no long response is under way."""
FIRST_STEP_BYTES: Final = 1024 * 1024
"""Memory that a long response gets at first; it doubles whenever it is full."""
LEAST_RESPONSE_BYTES: Final = 4
"""A response has at least a correlation id."""

_LENGTH: Final = struct.Struct(">i")


class BadLength(Exception):
    """A response announces a length that cannot be, or that is more than we take."""


class ResponseFrames:
    """Bytes in, frames (responses without their length) out."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray(READ_BYTES)
        self._start = 0
        self._end = 0
        self._long: bytearray | None = None
        self._long_length = 0
        self._long_filled = 0
        self._room = memoryview(b"")

    @property
    def is_empty(self) -> bool:
        """Whether no byte of an unfinished response is there."""
        return self._long is None and self._start == self._end

    def room(self) -> memoryview:
        """Writable room for the next bytes, at least one; it is taken back by `received`."""
        self._room.release()
        if self._long is None:
            self._compact()
            self._room = memoryview(self._buffer)[self._end :]
        else:
            self._grow(self._long)
            self._room = memoryview(self._long)[self._long_filled :]
        return self._room

    def received(self, count: int) -> None:
        """The first `count` bytes of the last `room` are the broker's."""
        self._room.release()
        if self._long is None:
            self._end += count
        else:
            self._long_filled += count

    def next_frame(self) -> memoryview | None:
        """The next whole response without its length, None while bytes are missing; it is the caller's own.

        Raises:
            BadLength: the length is below 4 or beyond the limit.
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
        if not LEAST_RESPONSE_BYTES <= length <= self._max_frame_bytes:
            raise BadLength(
                f"a response of {length} bytes is announced, {LEAST_RESPONSE_BYTES} to "
                f"{self._max_frame_bytes} are possible"
            )
        return int(length)

    def _begin_long(self, start: int, length: int) -> None:
        arrived = self._end - start
        self._long = bytearray(min(length, max(FIRST_STEP_BYTES, arrived)))
        self._long[:arrived] = self._buffer[start : self._end]
        self._long_length, self._long_filled = length, arrived
        self._start = self._end = 0

    def _finished_long(self, frame: bytearray) -> memoryview | None:
        if self._long_filled < self._long_length:
            return None
        self._long = None
        return memoryview(frame)

    def _grow(self, frame: bytearray) -> None:
        if self._long_filled == len(frame):
            frame.extend(bytes(min(len(frame), self._long_length - len(frame))))

    def _compact(self) -> None:
        """Make room behind an unfinished length; whole frames have been taken out before."""
        if self._start:
            pending = self._buffer[self._start : self._end]
            self._buffer[: len(pending)] = pending
            self._start, self._end = 0, len(pending)
