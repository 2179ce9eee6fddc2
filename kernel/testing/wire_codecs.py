r"""Conformance of wire codecs: a suite for each that `listener.codec.map` can name.

    class TestLines(WireCodecConformance, plugin=lines):
        def exchanges(self): return [WireExchange(b"a\n", "0 topics"), ...]
        def answers(self, sent): return sent.decode().splitlines()

Each test is one about bytes: a connection has no socket, and a broker in memory behind it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar, Final, cast

import attrs
import pytest
import trio

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.wire import Parts, Peer, StreamedBytes, WireCodec, WireConnection
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.loop_turns import holds_the_loop
from tidelog.kernel.testing.wire import GrantedMemory, WireDriver

MOST_IDLE_BYTES: Final = 16 * 1024
"""As much may a connection have that has received nothing: a broker may have thousands of them."""
MOST_FREE_BYTES: Final = 256 * 1024
"""As much may a receive buffer have that `memory` does not know of."""
MOST_SECONDS: Final = 10.0
"""After as long a request has no answer."""
PIECES: Final = (1, 2, 3, 7, 61)
MUTATIONS: Final = 60
CONNECTIONS: Final = 20
"""As many are left before tasks are counted; those of the broker itself come and go."""
RANDOM_BYTES: Final = 512
LISTENER: Final = "PLAINTEXT"


@attrs.frozen
class WireExchange:
    """What a client sends, and what it gets; `answer` is anything that can be compared."""

    request: bytes
    answer: object


class WireHarness:
    """A broker, and connections of the codec to prove."""

    def __init__(self, broker: Broker, codec: WireCodec) -> None:
        self.broker = broker
        self.codec = codec

    def connection(self, memory: GrantedMemory) -> WireConnection:
        """Return a new connection as the server has it."""
        return self.codec.connect(self.broker, Peer("192.0.2.1", 40_000, LISTENER), memory)

    def connect(self, memory: GrantedMemory | None = None) -> WireDriver:
        """Return a new connection that moves its own bytes."""
        return WireDriver(self.connection(memory or GrantedMemory()))


class WireCodecConformance(ABC):
    """All that the server relies on; `plugin` is the module with the hook of the codec to prove.

    `codec_name` chooses one where the plugin offers several, `settings` are those of the broker.
    """

    plugin: ClassVar[ModuleType]
    codec_name: ClassVar[str | None] = None
    settings: ClassVar[Mapping[str, object]] = {}

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @abstractmethod
    def exchanges(self) -> Sequence[WireExchange]:
        """Return three or more requests, each with another answer, which a new broker gives at any time."""

    @abstractmethod
    def answers(self, sent: bytes) -> Sequence[object]:
        """Return the whole answers in what a connection has sent.

        Raises:
            ValueError: there is something else behind them.
        """

    def refused(self) -> Sequence[bytes]:
        """Return what no client may send: the connection answers at most once, and ends. By default none."""
        return ()

    def endless(self) -> bytes:
        """Return how a request begins that is longer than any that is accepted, by default without an end."""
        return b"x" * 1024

    def large(self) -> WireExchange | None:
        """Return a request of 300 KiB or more, None (the default) if the protocol has no such request."""
        return None

    def waiting(self) -> bytes | None:
        """Return a request that waits for minutes, None (the default) if the protocol has none."""
        return None

    async def prepare(self, broker: Broker) -> None:
        """Create what the requests need, by default nothing."""
        del broker

    @pytest.fixture
    async def harness(self) -> AsyncGenerator[WireHarness]:
        """Yield a broker in memory that has the plugin."""
        named = {"plugins": self.plugin.__name__, **self.settings}
        async with running_broker(named) as broker:
            await self.prepare(broker)
            yield WireHarness(broker, self._codec(broker))

    def _codec(self, broker: Broker) -> WireCodec:
        (name,) = [each.name for each in broker.plugins.candidates if each.module == self.plugin.__name__]
        offered = dict(broker.plugins.ask("tidelog_wire_codecs"))[name]
        (codec,) = [
            each for each in cast("Sequence[WireCodec]", offered) if self.codec_name in (None, each.name)
        ]
        return codec

    async def _feed(self, driver: WireDriver, data: bytes, piece_bytes: int | None = None) -> int:
        with trio.move_on_after(MOST_SECONDS):
            return await driver.feed(data, piece_bytes=piece_bytes)
        pytest.fail(f"{data[:100]!r} is not served after {MOST_SECONDS:g} seconds")

    async def _expect(self, driver: WireDriver, exchanges: Sequence[WireExchange], piece: int | None) -> None:
        data = b"".join(each.request for each in exchanges)
        assert await self._feed(driver, data, piece) == len(data), f"not all is taken: {driver.ended!r}"
        answers = list(self.answers(driver.take_sent()))
        assert answers == [each.answer for each in exchanges], f"received in pieces of {piece} bytes"

    async def test_each_request_is_answered_once(self, harness: WireHarness) -> None:
        exchanges = self.exchanges()
        assert len(exchanges) >= 3, "the suite needs three requests"
        assert all(a.answer != b.answer for a, b in pairwise(exchanges))
        driver = harness.connect()
        for each in exchanges:
            await self._expect(driver, [each], None)

    async def test_pipelined_requests_are_answered_in_order_however_they_are_cut(
        self, harness: WireHarness
    ) -> None:
        exchanges = self.exchanges()
        for piece in (None, *PIECES):
            await self._expect(harness.connect(), [*exchanges, *reversed(exchanges)], piece)

    async def test_a_part_of_a_request_has_no_answer_and_can_be_left(self, harness: WireHarness) -> None:
        for each in self.exchanges():
            for length in {1, len(each.request) // 2, len(each.request) - 1}:
                driver = harness.connect()
                await self._feed(driver, each.request[:length])
                assert driver.ended is None, f"{each.request[:length]!r} is the begin of a request"
                assert list(self.answers(driver.take_sent())) == []
                driver.connection.close()

    async def test_connections_know_nothing_of_each_other(self, harness: WireHarness) -> None:
        one, other = harness.connect(), harness.connect()
        for ours, theirs in zip(self.exchanges(), reversed(self.exchanges()), strict=True):
            half, rest = ours.request[: len(ours.request) // 2], ours.request[len(ours.request) // 2 :]
            await self._feed(one, half)
            await self._expect(other, [theirs], None)
            await self._feed(one, rest)
            assert list(self.answers(one.take_sent())) == [ours.answer]

    async def test_what_no_client_may_send_ends_the_connection(self, harness: WireHarness) -> None:
        for data in self.refused():
            driver = harness.connect()
            await self._feed(driver, data + self.exchanges()[0].request)
            assert driver.ended is not None, f"{data[:100]!r} does not end the connection"
            assert len(self.answers(driver.take_sent())) <= 1, "what follows is answered"
            driver.connection.close()

    async def test_any_bytes_raise_only_what_ends_a_connection(self, harness: WireHarness) -> None:
        choose = random.Random(20)
        requests = [each.request for each in self.exchanges()]
        for _ in range(MUTATIONS):
            data = bytearray(choose.choice(requests) * 2)
            for _ in range(choose.randint(1, 4)):
                data[choose.randrange(len(data))] = choose.randrange(256)
            driver = harness.connect()
            # What it answers is its own affair; any other exception is one of this test.
            await self._feed(driver, bytes(data) + choose.randbytes(choose.randrange(RANDOM_BYTES)))
            assert isinstance(driver.connection.current_request, str)
            assert driver.connection.records_received >= 0
            driver.connection.close()

    async def test_an_idle_connection_is_small(self, harness: WireHarness) -> None:
        memory = GrantedMemory()
        driver = harness.connect(memory)
        assert len(driver.connection.receive_buffer()) > 0, "a new connection receives nothing"
        await self._expect(driver, self.exchanges(), None)
        driver.connection.release_memory()
        assert len(driver.connection.receive_buffer()) <= MOST_IDLE_BYTES
        assert memory.held_bytes == 0, "an idle connection has a share of the memory"

    async def test_a_request_without_end_takes_bounded_memory(self, harness: WireHarness) -> None:
        memory = GrantedMemory(MOST_FREE_BYTES)
        driver = harness.connect(memory)
        data = self.endless()
        for _ in range(4 * MOST_FREE_BYTES // len(data)):
            if driver.ended is not None or not len(driver.connection.receive_buffer()):
                break
            await self._feed(driver, data)
            held = len(driver.connection.receive_buffer())
            assert held <= MOST_FREE_BYTES + memory.held_bytes, "the buffer is larger than was granted"
        assert memory.held_bytes <= memory.limit_bytes
        driver.connection.close()

    async def test_a_large_request_waits_for_memory_and_gives_it_back(self, harness: WireHarness) -> None:
        large = self.large()
        if large is None:
            pytest.skip("the protocol has no large request")
        memory = GrantedMemory(0)
        driver = harness.connect(memory)
        taken = await self._feed(driver, large.request)
        assert taken < len(large.request), "a request that is larger than all memory is received"
        assert driver.ended is None, "the connection ends where it should wait"
        assert memory.refusals > 0
        memory.limit_bytes = 2**30
        assert await self._feed(driver, large.request[taken:]) == len(large.request) - taken
        assert list(self.answers(driver.take_sent())) == [large.answer]
        driver.connection.release_memory()
        # The buffer may be in use until the server asks for the next one.
        driver.connection.receive_buffer()
        driver.connection.release_memory()
        assert memory.held_bytes == 0, "the memory of a request that was answered is not given back"
        await self._expect(driver, self.exchanges(), None)

    async def test_no_call_blocks_the_event_loop(self, harness: WireHarness) -> None:
        for each in self.exchanges():
            assert not await holds_the_loop(partial(self._serve, harness, each.request)), each.request[:100]

    async def _serve(self, harness: WireHarness, request: bytes) -> None:
        connection = harness.connection(GrantedMemory())
        buffer = connection.receive_buffer()
        count = min(len(buffer), len(request))
        buffer[:count] = request[:count]
        connection.bytes_received(count)
        step = connection.next_step()
        if step is not None and not isinstance(step, list):
            with trio.move_on_after(MOST_SECONDS):
                await step
        connection.close()

    async def test_parts_are_bytes_regions_or_streams(self, harness: WireHarness) -> None:
        for each in self.exchanges():
            connection = harness.connection(GrantedMemory())
            buffer = connection.receive_buffer()
            buffer[: len(each.request)] = each.request
            connection.bytes_received(len(each.request))
            step = connection.next_step()
            assert step is not None, "a whole request is not served"
            parts: Parts = step if isinstance(step, list) else await step
            assert isinstance(parts, list)
            for part in parts:
                assert isinstance(part, bytes | bytearray | memoryview | StreamedBytes) or part.size >= 0
            assert connection.next_step() is None, "a request is served twice"
            connection.close()

    async def test_a_connection_leaves_no_task(self, harness: WireHarness) -> None:
        await self._expect(harness.connect(), self.exchanges(), None)
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(CONNECTIONS):
            driver = harness.connect()
            await self._expect(driver, self.exchanges(), None)
            driver.connection.close()
        after = trio.lowlevel.current_statistics().tasks_living
        assert after - before < CONNECTIONS // 2, "each connection leaves a task"

    async def test_a_request_that_waits_can_be_left(self, harness: WireHarness) -> None:
        request = self.waiting()
        if request is None:
            pytest.skip("the protocol has no request that waits")
        await self._expect(harness.connect(), self.exchanges(), None)
        before = trio.lowlevel.current_statistics().tasks_living
        for number in range(CONNECTIONS):
            driver = harness.connect()
            # What the first one needs may have to be imported.
            with trio.move_on_after(0.01 if number else 1) as scope:
                await driver.feed(request)
            assert scope.cancelled_caught or driver.waiting is not None, "it does not wait"
            driver.connection.close()
        assert trio.lowlevel.current_statistics().tasks_living - before < CONNECTIONS // 2, (
            "each leaves a task"
        )
        await self._expect(harness.connect(), self.exchanges(), None)
