"""The suite of wire codecs finds each wrong one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence

import pytest
import trio

from tidelog.kernel.seams.wire import (
    ConnectionFinished,
    Parts,
    Peer,
    ProtocolViolation,
    ReceiveMemory,
    WireConnection,
    WireContext,
)
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.wire_codecs import WireCodecConformance, WireExchange, WireHarness

MOST_LINE_BYTES = 1024 * 1024
SMALL_BYTES = 4096


class Lines(WireCodecConformance):
    """Each line is answered by itself in capitals."""

    def exchanges(self) -> Sequence[WireExchange]:
        return [WireExchange(text + b"\n", text.upper()) for text in (b"one", b"two", b"three")]

    def answers(self, sent: bytes) -> Sequence[object]:
        *lines, rest = sent.split(b"\n")
        if rest:
            raise ValueError(rest)
        return lines

    def refused(self) -> Sequence[bytes]:
        return [b"\0\n", b"\xff\n"]

    def large(self) -> WireExchange:
        return WireExchange(b"x" * 400_000 + b"\n", b"X" * 400_000)

    def waiting(self) -> bytes:
        return b"wait\n"


class Careful:
    """A right connection."""

    records_received = 0
    current_request = "a line"

    def __init__(self, broker: WireContext, memory: ReceiveMemory) -> None:
        self.broker = broker
        self.memory = memory
        self.buffer = bytearray(SMALL_BYTES)
        self.received = bytearray()

    def receive_buffer(self) -> memoryview:
        if len(self.received) > SMALL_BYTES and not self.memory.resize(len(self.received) + SMALL_BYTES):
            return memoryview(b"")
        return memoryview(self.buffer)

    def bytes_received(self, count: int) -> None:
        self.received += self.buffer[:count]

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        line, newline, rest = self.received.partition(b"\n")
        if not newline:
            if len(line) > MOST_LINE_BYTES:
                raise ProtocolViolation("the line is too long")
            return None
        self.received = rest
        if not line.isascii() or b"\0" in line:
            raise ProtocolViolation("no text")
        text = bytes(line)
        return self.wait() if text == b"wait" else self.answer(text)

    def answer(self, line: bytes) -> Parts | Awaitable[Parts]:
        return [line.upper() + b"\n"]

    async def wait(self) -> Parts:
        await trio.Event().wait()
        return []

    def release_memory(self) -> None:
        if not self.received:
            self.memory.resize(0)

    def close(self) -> None:
        self.memory.resize(0)


class AnswersTwice(Careful):
    def answer(self, line: bytes) -> Parts:
        return [(line.upper() + b"\n") * 2]


class AnswersAHalf(Careful):
    """Takes what has arrived for a whole request."""

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        if self.received and b"\n" not in self.received:
            self.received += b"\n"
        return super().next_step()


class LosesWhatFollows(Careful):
    def next_step(self) -> Parts | Awaitable[Parts] | None:
        step = super().next_step()
        if step is not None:
            self.received.clear()
        return step


class Reorders(Careful):
    """Answers the last of the requests that have arrived first."""

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        lines = bytes(self.received).splitlines(keepends=True)
        if len(lines) > 1 and lines[-1].endswith(b"\n"):
            self.received = bytearray(b"".join([lines[-1], *lines[:-1]]))
        return super().next_step()


class ForgetsWhatCameBefore(Careful):
    """Sees only what came with the last receive."""

    def bytes_received(self, count: int) -> None:
        self.received = bytearray(self.buffer[:count])


class Shares(Careful):
    """Has one buffer for all connections."""

    shared = bytearray()

    def __init__(self, broker: WireContext, memory: ReceiveMemory) -> None:
        super().__init__(broker, memory)
        self.received = self.shared

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        step = super().next_step()
        self.shared[:] = self.received
        self.received = self.shared
        return step


class Continues(Careful):
    """Answers behind what no client may send."""

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        try:
            return super().next_step()
        except ProtocolViolation:
            return [b"?\n"]


class RaisesAnything(Careful):
    def answer(self, line: bytes) -> Parts:
        return [line.decode("ascii").upper().encode() + b"\n" if line.isalpha() else bytes(int(line))]


class Grows(Careful):
    """Doubles its buffer without asking for memory."""

    def receive_buffer(self) -> memoryview:
        if len(self.received) > len(self.buffer) // 2:
            self.buffer = bytearray(2 * len(self.buffer))
        return memoryview(self.buffer)


class BeginsLarge(Careful):
    def __init__(self, broker: WireContext, memory: ReceiveMemory) -> None:
        super().__init__(broker, memory)
        self.buffer = bytearray(1024 * 1024)


class KeepsMemory(Careful):
    def release_memory(self) -> None:
        pass


class EndsWithoutMemory(Careful):
    def receive_buffer(self) -> memoryview:
        buffer = super().receive_buffer()
        if not len(buffer):
            self.buffer, self.ended = bytearray(1), True
            return memoryview(self.buffer)
        return buffer

    ended = False

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        if self.ended:
            raise ConnectionFinished
        return super().next_step()


class Blocks(Careful):
    def answer(self, line: bytes) -> Parts:
        time.sleep(0.3)
        return [line.upper() + b"\n"]


class BlocksLater(Careful):
    async def answer(self, line: bytes) -> Parts:
        await trio.lowlevel.checkpoint()
        time.sleep(0.3)  # noqa: ASYNC251 - that is the fault
        return [line.upper() + b"\n"]


class LeaksATask(Careful):
    def answer(self, line: bytes) -> Parts:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return [line.upper() + b"\n"]


class SurvivesCancelling(Careful):
    """Continues to wait in a task of its own when its client has left."""

    async def wait(self) -> Parts:
        done = trio.Event()
        trio.lowlevel.spawn_system_task(done.wait)
        await done.wait()
        return []


class ReturnsText(Careful):
    def answer(self, line: bytes) -> Parts:
        return [line.upper().decode() + "\n"]  # type: ignore[list-item]


class ServesAgain(Careful):
    """Has an empty response for nothing."""

    idle = 0

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        step = super().next_step()
        self.idle = self.idle + 1 if step is None else 0
        return [] if self.idle == 1 else step


WRONG: list[tuple[type[Careful], str]] = [
    (AnswersTwice, "each_request_is_answered_once"),
    (AnswersAHalf, "a_part_of_a_request_has_no_answer_and_can_be_left"),
    (LosesWhatFollows, "pipelined_requests_are_answered_in_order_however_they_are_cut"),
    (Reorders, "pipelined_requests_are_answered_in_order_however_they_are_cut"),
    (ForgetsWhatCameBefore, "pipelined_requests_are_answered_in_order_however_they_are_cut"),
    (Shares, "connections_know_nothing_of_each_other"),
    (Continues, "what_no_client_may_send_ends_the_connection"),
    (RaisesAnything, "any_bytes_raise_only_what_ends_a_connection"),
    (Grows, "a_request_without_end_takes_bounded_memory"),
    (BeginsLarge, "an_idle_connection_is_small"),
    (KeepsMemory, "a_large_request_waits_for_memory_and_gives_it_back"),
    (EndsWithoutMemory, "a_large_request_waits_for_memory_and_gives_it_back"),
    (Blocks, "no_call_blocks_the_event_loop"),
    (BlocksLater, "no_call_blocks_the_event_loop"),
    (LeaksATask, "a_connection_leaves_no_task"),
    (SurvivesCancelling, "a_request_that_waits_can_be_left"),
    (ReturnsText, "parts_are_bytes_regions_or_streams"),
    (ServesAgain, "parts_are_bytes_regions_or_streams"),
]


async def run(test: str, connection: type[Careful]) -> None:
    class Codec:
        name = "lines"

        def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
            return connection(broker, memory)

    async with running_broker() as broker:
        await getattr(Lines(), f"test_{test}")(WireHarness(broker, Codec()))


@pytest.mark.parametrize(("wrong", "test"), WRONG)
async def test_wire_codec_conformance_finds_a_wrong_codec(wrong: type[Careful], test: str) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc((AssertionError, ValueError, AttributeError, pytest.fail.Exception)),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        await run(test, wrong)


@pytest.mark.parametrize(
    "test", sorted(name[5:] for name in vars(WireCodecConformance) if name[:5] == "test_")
)
async def test_wire_codec_conformance_passes_a_right_codec(test: str) -> None:
    await run(test, Careful)
