"""How a long response gives way, on a clock and with a processor that the test sets."""

from __future__ import annotations

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from tidelog.kernel.network.turns import LOST_SHARE, MOST_LOST_SECONDS, SHORT_SECONDS, Turns

LONG_SECONDS = 0.004


@attrs.define
class Processor:
    """A clock, and others that take `their_seconds` when the processor is theirs."""

    their_seconds: float = 0.0
    now: float = 100.0
    yields: int = 0

    def clock(self) -> float:
        return self.now

    def yield_to_others(self) -> None:
        self.yields += 1
        self.now += self.their_seconds

    def turns(self) -> Turns:
        return Turns(self.clock, self.yield_to_others)


async def yields_in(turns: Turns, processor: Processor, times: int) -> int:
    """How often the processor went to others in so many calls."""
    before = processor.yields
    for _ in range(times):
        await turns.give_way()
    return processor.yields - before


async def test_give_way_lets_other_tasks_run_that_become_ready_meanwhile() -> None:
    order: list[str] = []
    for _ in range(20):  # the order of tasks in one turn of the event loop is random
        arrived = trio.Event()
        turns = Turns(yield_processor=arrived.set)

        async def serve(arrived: trio.Event = arrived) -> None:
            await arrived.wait()
            order.append("served")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await wait_all_tasks_blocked()
            await turns.give_way()
            order.append("next piece")
    assert order == ["served", "next piece"] * 20


async def test_give_way_yields_the_processor_each_time_to_short_turns() -> None:
    processor = Processor(their_seconds=SHORT_SECONDS)
    assert await yields_in(processor.turns(), processor, 1000) == 1000


async def test_give_way_keeps_the_processor_once_long_turns_have_taken_their_share() -> None:
    processor = Processor(their_seconds=LONG_SECONDS)
    turns = processor.turns()
    most = MOST_LOST_SECONDS / (LONG_SECONDS - SHORT_SECONDS) + 2
    assert 1 < await yields_in(turns, processor, 1000) < most
    assert await yields_in(turns, processor, 1000) == 0


async def test_give_way_loses_no_more_than_its_share_of_a_long_time() -> None:
    processor = Processor(their_seconds=LONG_SECONDS)
    turns = processor.turns()
    begin = processor.now
    for _ in range(100_000):
        processor.now += 0.0001
        await turns.give_way()
    lost = processor.yields * LONG_SECONDS
    assert lost < (processor.now - begin) * LOST_SHARE * 1.1 + MOST_LOST_SECONDS
    assert lost > (processor.now - begin) * LOST_SHARE


async def test_give_way_yields_again_after_a_quiet_time_but_does_not_save_it_up() -> None:
    processor = Processor(their_seconds=LONG_SECONDS)
    turns = processor.turns()
    first = await yields_in(turns, processor, 1000)
    processor.now += 1000.0
    assert await yields_in(turns, processor, 1000) in (first, first + 1)
