"""The receive buffer: frames at every split point, bounds of its size, and lengths that cannot be."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framed_bytes import feed, framed, frames_in
from tests.tables import for_each
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.connection import (
    GROWN_BYTES,
    GROWTH,
    INITIAL_BYTES,
    MAX_RETAINED_BYTES,
    ReceiveBuffer,
)

MAX_FRAME = 100 * 1024 * 1024
PATTERN = bytes(range(251))


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes that tell where they belong."""
    return (PATTERN * (size // len(PATTERN) + 2))[seed : seed + size]


def receive(buffer: ReceiveBuffer, data: bytes) -> None:
    """The socket gives these bytes, in as many reads as it takes."""
    rest = memoryview(data)
    while rest:
        room = buffer.room()
        count = min(len(room), len(rest))
        assert count > 0
        room[:count] = rest[:count]
        buffer.bytes_received(count)
        rest = rest[count:]


def test_next_frame_returns_pipelined_frames_split_at_any_point() -> None:
    frames = [b"first", b"", b"the third", pattern(300), b"x"]
    stream = framed(*frames)
    for at in range(len(stream) + 1):
        assert feed(ReceiveBuffer(MAX_FRAME), [stream[:at], stream[at:]]) == frames


def test_next_frame_returns_frames_that_arrive_byte_by_byte() -> None:
    frames = [pattern(5000), b"", pattern(10, 1), pattern(INITIAL_BYTES - 4, 2)]
    stream = framed(*frames)
    assert feed(ReceiveBuffer(MAX_FRAME), [stream[at : at + 1] for at in range(len(stream))]) == frames


sizes = st.sampled_from([0, 1, 100, 4091, 4092, 4093, 5000, 60_000, 131_067, 131_068, 131_069, 300_000])


@given(st.lists(sizes | st.integers(0, 9000), max_size=8), st.lists(st.integers(99, 200_000), min_size=1))
def test_next_frame_returns_any_frames_from_pieces_of_any_size(
    lengths: list[int], cuts: Sequence[int]
) -> None:
    frames = [pattern(length, index) for index, length in enumerate(lengths)]
    stream = framed(*frames)
    pieces: list[bytes] = []
    position = 0
    while position < len(stream):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(stream[position : position + size])
        position += size
    assert feed(ReceiveBuffer(MAX_FRAME), pieces) == frames


@given(st.lists(sizes, min_size=1, max_size=6), st.integers(0, 400_000))
def test_next_frame_keeps_all_frames_of_one_read_valid(lengths: list[int], more: int) -> None:
    """The server serves all of them before it asks for room again."""
    buffer = ReceiveBuffer(MAX_FRAME)
    frames = [pattern(length, index) for index, length in enumerate(lengths)]
    receive(buffer, framed(*frames) + framed(pattern(more))[:-1])
    assert [bytes(frame) for frame in frames_in(buffer)] == frames


def test_next_frame_returns_a_writable_view() -> None:
    """Offsets are stamped into a batch without copying it."""
    buffer = ReceiveBuffer(MAX_FRAME)
    receive(buffer, framed(b"request"))
    frame = buffer.next_frame()
    assert frame is not None
    frame[0:2] = b"RE"
    assert bytes(frame) == b"REquest"


@for_each("length", [0, 1, 95, 96, 4092, 5000])
def test_there_is_always_room(length: int) -> None:
    """Reads that fill all the room there is, wherever that cuts the frames."""
    buffer = ReceiveBuffer(MAX_FRAME)
    stream = framed(*[pattern(length)] * (1_000_000 // (length + 4)))
    position = found = 0
    while position < len(stream):
        room = buffer.room()
        assert len(room) > 0
        piece = stream[position : position + len(room)]
        room[: len(piece)] = piece
        buffer.bytes_received(len(piece))
        position += len(piece)
        found += len(frames_in(buffer))
    assert found * (length + 4) == len(stream)


@for_each("arrived", [4, 5, 1000, INITIAL_BYTES, GROWN_BYTES, 1_000_000, 3_000_000])
def test_room_for_an_announced_frame_grows_only_as_bytes_arrive(arrived: int) -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    receive(buffer, (struct.pack(">i", MAX_FRAME) + bytes(arrived))[:arrived])
    assert buffer.next_frame() is None
    assert len(buffer.room()) <= max(INITIAL_BYTES, GROWTH * arrived)


@given(st.integers(0, 600_000))
def test_room_stays_in_proportion_to_the_bytes_received(size: int) -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    stream = framed(pattern(size))
    position = 0
    while position < len(stream):
        room = buffer.room()
        assert len(room) + min(position, len(stream)) <= max(INITIAL_BYTES, (GROWTH + 1) * max(position, 1))
        count = min(len(room), len(stream) - position, 70_000)
        room[:count] = stream[position : position + count]
        buffer.bytes_received(count)
        position += count
    assert [bytes(frame) for frame in frames_in(buffer)] == [pattern(size)]


@for_each("length", [20, 1000, 3000])
def test_a_buffer_that_is_filled_with_small_frames_grows(length: int) -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    stream, position = framed(*[bytes(length)] * (400_000 // length)), 0
    while position < 300_000:
        room = buffer.room()
        room[:] = stream[position : position + len(room)]
        buffer.bytes_received(len(room))
        position += len(room)
        frames_in(buffer)
    assert len(buffer.room()) > GROWN_BYTES // 2


def test_a_buffer_that_grew_is_kept_for_the_next_frames() -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    feed(buffer, [framed(bytes(1_000_000))])
    size = len(buffer.room())
    assert 1_000_000 <= size <= MAX_RETAINED_BYTES
    feed(buffer, [framed(bytes(1_000_000))] * 5)
    assert len(buffer.room()) == size


def test_release_memory_of_a_large_buffer_is_immediate() -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    assert len(feed(buffer, [framed(bytes(MAX_RETAINED_BYTES + 1))])) == 1
    assert len(buffer.room()) == GROWN_BYTES


def test_release_memory_of_an_idle_connection_keeps_a_small_buffer() -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    feed(buffer, [framed(bytes(1_000_000))])
    buffer.release_memory()
    assert len(buffer.room()) == INITIAL_BYTES
    assert feed(buffer, [framed(b"next")]) == [b"next"]


@pytest.mark.parametrize("arrived", [1, 4, 1000, 200_000])
def test_release_memory_keeps_a_partial_frame(arrived: int) -> None:
    buffer = ReceiveBuffer(MAX_FRAME)
    stream = framed(pattern(300_000))
    feed(buffer, [stream[:arrived]])
    buffer.release_memory()
    assert feed(buffer, [stream[arrived:]]) == [pattern(300_000)]


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_next_frame_refuses_negative_lengths_and_lengths_above_the_limit(length: int) -> None:
    buffer = ReceiveBuffer(1000)
    receive(buffer, struct.pack(">i", length) + b"behind")
    with pytest.raises(
        ProtocolViolation, match=rf"a request of {length} bytes is announced, socket.request.max.bytes=1000"
    ):
        buffer.next_frame()


@pytest.mark.parametrize("length", [0, 1, 999, 1000])
def test_next_frame_returns_frames_up_to_the_limit(length: int) -> None:
    assert feed(ReceiveBuffer(1000), [framed(bytes(length))]) == [bytes(length)]


def test_next_frame_returns_frames_before_an_invalid_length() -> None:
    buffer = ReceiveBuffer(1000)
    receive(buffer, framed(b"one", b"two") + struct.pack(">i", -1))
    assert bytes(buffer.next_frame() or b"") == b"one"
    assert bytes(buffer.next_frame() or b"") == b"two"
    with pytest.raises(ProtocolViolation):
        buffer.next_frame()


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"\x16\x03\x01\x02", "it looks like TLS"),
        (b"GET ", "it looks like HTTP"),
        (b"POST", "it looks like HTTP"),
        (b"\xff\xff\xff\xff", "socket.request.max.bytes=1000$"),
        (b"ssh-", "socket.request.max.bytes=1000$"),
    ],
)
def test_next_frame_names_the_other_protocol(head: bytes, told: str) -> None:
    buffer = ReceiveBuffer(1000)
    receive(buffer, head)
    with pytest.raises(ProtocolViolation, match=told):
        buffer.next_frame()
