"""The memory of requests: how much, in which order, and who is ended for others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.network.request_memory import PATIENCE_S, MemoryShare, RequestMemory

LIMIT = 100


@attrs.frozen
class Client:
    """A connection that has a share."""

    reclaim: Callable[[], None] = lambda: None
    end: Callable[[], bool] = lambda: False

    def reclaim_memory(self) -> None:
        """Give back what is not used now."""
        self.reclaim()

    def give_up(self) -> bool:
        """End, or not."""
        return self.end()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 150)), max_size=40))
def test_resize_never_gives_more_than_there_is_except_to_one_alone(changes: list[tuple[int, int]]) -> None:
    async def main() -> None:
        memory = RequestMemory(LIMIT)
        shares = [memory.share() for _ in range(4)]
        for index, size in changes:
            before = shares[index].held_bytes
            taken = shares[index].resize(size)
            assert shares[index].held_bytes == (size if taken else before)
            held = [share.held_bytes for share in shares]
            assert memory.used_bytes == sum(held)
            assert sum(held) <= LIMIT or sum(map(bool, held)) == 1
            assert taken or size > before

    trio.run(main)


async def test_wait_serves_those_that_wait_in_their_order() -> None:
    memory = RequestMemory(LIMIT)
    first, large, small = memory.share(), memory.share(), memory.share()
    assert first.resize(80)
    order: list[str] = []

    async def take(name: str, share: MemoryShare, size: int) -> None:
        while not share.resize(size):
            await share.wait()
        order.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, "large", large, 90)
        await wait_all_tasks_blocked()
        # It would fit, but others would then wait for ever behind small ones.
        nursery.start_soon(take, "small", small, 10)
        await wait_all_tasks_blocked()
        assert (order, memory.waiting_count, memory.used_bytes) == ([], 2, 80)
        first.resize(10)
        await wait_all_tasks_blocked()
        assert (order, memory.used_bytes) == (["large"], LIMIT)
        first.close()
    assert order == ["large", "small"]


async def test_wait_leaves_the_queue_when_it_is_cancelled() -> None:
    memory = RequestMemory(LIMIT)
    holder, leaving, next_one = memory.share(), memory.share(), memory.share()
    assert holder.resize(60)
    assert not leaving.resize(90)
    assert not next_one.resize(50)
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0) as scope:
            await leaving.wait()
        assert scope.cancelled_caught
        nursery.start_soon(next_one.wait)
        await wait_all_tasks_blocked()
        assert memory.waiting_count == 1
        holder.resize(10)
    assert (next_one.held_bytes, leaving.held_bytes) == (50, 0)


async def test_resize_reclaims_what_others_do_not_use() -> None:
    memory = RequestMemory(LIMIT)
    idle, asking = memory.share(), memory.share()
    assert idle.resize(100)
    idle.owner = Client(reclaim=idle.close)
    assert asking.resize(100)
    assert (idle.held_bytes, asking.held_bytes) == (0, 100)


@pytest.mark.parametrize("served", [False, True])
async def test_sweep_ends_what_has_been_unfinished_for_longest(mock_clock: MockClock, served: bool) -> None:
    memory = RequestMemory(LIMIT)
    shares = {name: memory.share() for name in ("old", "served", "newer", "fresh", "waits")}
    ended: list[str] = []

    def end(name: str) -> bool:
        if name != "served":
            ended.append(name)
        return name in ended

    for name, size in (("old", 40), ("served", 20), ("newer", 20), ("fresh", 20)):
        mock_clock.jump(1)
        assert shares[name].resize(size)
        shares[name].owner = Client(end=partial(end, name))
    assert not shares["waits"].resize(30 if served else 50)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shares["waits"].wait)
        await wait_all_tasks_blocked()
        mock_clock.jump(PATIENCE_S - 1)
        shares["fresh"].request_finished()
        memory.sweep()
        assert not ended
        mock_clock.jump(1)
        memory.sweep()
        memory.sweep()
        assert ended == (["old"] if served else ["old", "newer"])
        for name in ended:
            shares[name].close()
    assert shares["waits"].held_bytes == (30 if served else 50)
