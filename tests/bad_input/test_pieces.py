"""However a network cuts a stream of frames, the receive buffer hands them out whole."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.plugins.protocol_kafka.receive_buffer import GROWN_BYTES, GROWTH, ReceiveBuffer

from .raw import framed

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FRAME_BYTES = 8_000_000
SIZES = st.one_of(st.integers(0, 300), st.integers(0, 200_000), st.integers(0, 1_000_000))


@settings(deadline=None, max_examples=50)
@given(sizes=st.lists(SIZES, min_size=1, max_size=6), pieces=st.integers(1, 300), seed=st.integers())
def test_frames_come_out_as_they_went_in(sizes: Sequence[int], pieces: int, seed: int) -> None:
    chosen = random.Random(seed)
    frames = [chosen.randbytes(size) for size in sizes]
    stream = b"".join(map(framed, frames))
    piece = 1 + 2 * len(stream) // pieces
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    received: list[bytes] = []
    position = 0
    while position < len(stream):
        room = buffer.room()
        count = min(len(room), chosen.randint(1, piece), len(stream) - position)
        room[:count] = stream[position : position + count]
        position += count
        buffer.received(count)
        while (frame := buffer.next_frame()) is not None:
            received.append(bytes(frame))
    assert received == frames


def test_room_grows_with_what_has_arrived() -> None:
    stream = framed(bytes(MAX_FRAME_BYTES))
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    position = 0
    while position < len(stream):
        room = buffer.room()
        assert len(room) <= max(GROWN_BYTES, GROWTH * position)
        room[:] = stream[position : position + len(room)].ljust(len(room))
        position += len(room)
        buffer.received(len(room))
    frame = buffer.next_frame()
    assert frame is not None
    assert bytes(frame) == bytes(MAX_FRAME_BYTES)
