"""Frames, each behind its length, given to what receives them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Protocol


class Receiver(Protocol):
    """The buffer of a broker's connection, or of a client's."""

    def room(self) -> memoryview: ...
    def bytes_received(self, count: int) -> None: ...
    def next_frame(self) -> memoryview | None: ...


def framed(*frames: bytes) -> bytes:
    """These frames, each behind its length."""
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def frames_in(buffer: Receiver) -> list[memoryview]:
    """All whole frames that are there."""
    frames: list[memoryview] = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(frame)
    return frames


def frames_from(buffer: Receiver, pieces: Iterable[bytes]) -> Iterator[memoryview]:
    """The frames that come out when these pieces go in, one read each as far as there is room."""
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            room = buffer.room()
            count = min(len(room), len(rest))
            assert count > 0
            room[:count] = rest[:count]
            buffer.bytes_received(count)
            rest = rest[count:]
            yield from frames_in(buffer)


def feed(buffer: Receiver, pieces: Iterable[bytes]) -> list[bytes]:
    """What all of these frames hold."""
    return [bytes(frame) for frame in frames_from(buffer, pieces)]
