"""Responses cut out of what is received: long ones share buffers, but never while somebody has a view."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.framed_bytes import feed, framed, frames_from
from tests.tables import for_each
from tidelog.plugins.client.frames import (
    FIRST_STEP_BYTES,
    MOST_SPARE_BYTES,
    READ_BYTES,
    SPARES,
    ResponseFrames,
)

LONG = FIRST_STEP_BYTES + 1000


def pattern(number: int, size: int) -> bytes:
    """Bytes that no other response has at the same place."""
    period = bytes((number * 7 + index) % 251 for index in range(251))
    return (period * (size // len(period) + 1))[:size]


def receive(frames: ResponseFrames, content: bytes, chunk: int = 300_000) -> memoryview:
    """Receive one response in pieces of at most `chunk` bytes."""
    stream = framed(content)
    (frame,) = frames_from(frames, (stream[at : at + chunk] for at in range(0, len(stream), chunk)))
    assert frames.is_empty
    return frame


sizes = st.sampled_from([4, 70_000, FIRST_STEP_BYTES - 1, FIRST_STEP_BYTES, LONG, 1_500_000, 3_000_000])


@given(st.lists(st.tuples(sizes, st.integers(0, 4)), max_size=8), st.sampled_from([65_536, 1_000_000]))
@settings(max_examples=50)
def test_a_response_stays_as_it_is_while_somebody_has_it(held: list[tuple[int, int]], chunk: int) -> None:
    """Each is held until so many others have come."""
    frames = ResponseFrames(100_000_000)
    views: list[tuple[int, memoryview, bytes]] = []
    for number, (size, others) in enumerate(held):
        content = pattern(number, size)
        views.append((number + others, receive(frames, content, chunk), content))
        assert all(view == meant for _, view, meant in views)
        views = [each for each in views if each[0] > number]


@for_each("left", [0, 1, 3, 4, 5])
def test_there_is_room_after_responses_that_fill_the_buffer(left: int) -> None:
    """A read into no room gives nothing, which is how a connection ends."""
    frames = ResponseFrames(100_000)
    contents = [pattern(number, 1020) for number in range(READ_BYTES // 1024)]
    last = pattern(99, 500)
    stream = framed(*contents, last)
    at = READ_BYTES - left
    assert feed(frames, [stream[:at], stream[at:]]) == [*contents, last]
    assert len(frames.room()) > 1


@for_each("size", [LONG, LONG - 500, LONG + 2_000_000, FIRST_STEP_BYTES // 2])
def test_a_long_response_is_received_into_a_buffer_that_nobody_needs(size: int) -> None:
    frames = ResponseFrames(100_000_000)
    first = receive(frames, pattern(1, LONG))
    buffer = first.obj
    part = first[10:20]
    del first
    assert receive(frames, pattern(2, LONG)).obj is not buffer, "somebody has a part of it"
    del part
    again = receive(frames, pattern(3, size))
    assert again.obj is buffer
    assert again == pattern(3, size)


def test_a_buffer_that_is_longer_than_its_response_gets_nothing_of_the_next_one() -> None:
    frames = ResponseFrames(100_000_000)
    receive(frames, pattern(1, 2 * LONG))
    contents = [pattern(2, LONG), pattern(3, 200)]
    assert feed(frames, [framed(*contents)]) == contents


def test_two_buffers_are_enough_for_who_holds_one_response_at_a_time() -> None:
    frames = ResponseFrames(100_000_000)
    buffers: list[object] = []
    held = receive(frames, pattern(0, LONG))
    for number in range(1, 6):
        held = receive(frames, pattern(number, LONG + number))
        buffers.append(held.obj)
    assert len({id(each) for each in buffers}) == 2


def test_a_buffer_that_was_needed_for_a_while_is_used_again() -> None:
    frames = ResponseFrames(100_000_000)
    first = receive(frames, pattern(0, LONG))
    for number in range(1, 4):
        other = receive(frames, pattern(number, LONG))
        del other
    buffer = first.obj
    other = receive(frames, pattern(4, LONG))
    del first
    assert receive(frames, pattern(5, LONG)).obj is buffer
    assert other == pattern(4, LONG)


def test_a_buffer_of_the_first_size_is_used_again() -> None:
    frames = ResponseFrames(100_000_000)
    buffer = receive(frames, pattern(1, FIRST_STEP_BYTES)).obj
    assert receive(frames, pattern(2, LONG)).obj is buffer


def test_the_buffer_of_a_short_response_is_not_used_for_a_long_one() -> None:
    """It would have to grow many times, a short read each."""
    frames = ResponseFrames(100_000_000)
    receive(frames, pattern(1, 300), chunk=100)
    assert feed(frames, [framed(pattern(2, LONG))[:1000]]) == []
    assert len(frames.room()) == FIRST_STEP_BYTES - (1000 - 4)


def test_only_some_buffers_are_kept() -> None:
    frames = ResponseFrames(100_000_000)
    views = [receive(frames, pattern(number, LONG)) for number in range(SPARES + 3)]
    buffers = [view.obj for view in views]
    views.clear()
    held = [receive(frames, pattern(number, LONG)) for number in range(SPARES + 3)]
    assert sum(any(view.obj is each for each in buffers) for view in held) == SPARES


def test_buffers_that_are_kept_have_few_bytes_together() -> None:
    frames = ResponseFrames(100_000_000)
    size = MOST_SPARE_BYTES // 3
    views = [receive(frames, bytes(size), chunk=MOST_SPARE_BYTES) for _ in range(SPARES)]
    buffers = [view.obj for view in views]
    views.clear()
    held = [receive(frames, bytes(size), chunk=MOST_SPARE_BYTES) for _ in range(SPARES)]
    assert sum(any(view.obj is each for each in buffers) for view in held) == 3


def test_a_very_long_response_leaves_no_buffer_behind() -> None:
    frames = ResponseFrames(100_000_000)
    very_long = receive(frames, bytes(MOST_SPARE_BYTES + 1), chunk=MOST_SPARE_BYTES)
    buffer = very_long.obj
    del very_long
    assert receive(frames, pattern(1, LONG)).obj is not buffer


def test_a_length_alone_gets_no_more_than_a_spare() -> None:
    frames = ResponseFrames(100_000_000)
    receive(frames, pattern(1, LONG))
    room = frames.room()
    room[:4] = struct.pack(">i", 90_000_000)
    frames.bytes_received(4)
    assert frames.next_frame() is None
    assert len(frames.room()) <= LONG
