"""Replies that many tasks wait for: all get theirs, in order, with room for other tasks in between."""

from __future__ import annotations

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tidelog.plugins.coordinator.groups.replies import AWAKE_AT_ONCE, ReplyQueue, WaitingReply


class Waiting:
    """Replies with a task for each, of which some have left."""

    def __init__(self, nursery: trio.Nursery, count: int, queue: ReplyQueue | None = None) -> None:
        self.queue = queue or ReplyQueue()
        self.replies = [WaitingReply[int](self.queue) for _ in range(count)]
        self.answered: list[int] = []
        self.scopes = [trio.CancelScope() for _ in range(count)]
        for place in range(count):
            nursery.start_soon(self._wait, place)

    async def _wait(self, place: int) -> None:
        with self.scopes[place]:
            self.answered.append(await self.replies[place].wait())


async def test_only_some_tasks_are_woken_before_others_run() -> None:
    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        waiting = Waiting(nursery, 10 * AWAKE_AT_ONCE)
        await wait_all_tasks_blocked()
        for place, reply in enumerate(waiting.replies):
            reply.set(place)
        while len(waiting.answered) < len(waiting.replies):
            await trio.lowlevel.checkpoint()
            seen.append(len(waiting.answered))
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    # The order of tasks within a pass of the event loop is random: this one sees parts of two.
    assert max(steps) <= 2 * AWAKE_AT_ONCE


@given(
    count=st.integers(1, 3 * AWAKE_AT_ONCE),
    gone_before=st.sets(st.integers(0, 3 * AWAKE_AT_ONCE)),
    gone_after=st.sets(st.integers(0, 3 * AWAKE_AT_ONCE)),
)
def test_a_task_that_left_holds_up_no_other(count: int, gone_before: set[int], gone_after: set[int]) -> None:
    """Some leave before the replies are set, and some between that and their turn."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            waiting = Waiting(nursery, count)
            await wait_all_tasks_blocked()
            for place in gone_before & set(range(count)):
                waiting.scopes[place].cancel()
            await wait_all_tasks_blocked()
            for place, reply in enumerate(waiting.replies):
                reply.set(place)
            for place in gone_after & set(range(count)):
                waiting.scopes[place].cancel()
            await wait_all_tasks_blocked()
            left = set(range(count)) - gone_before
            assert left - gone_after <= set(waiting.answered) <= left
            # What is left of the queue wakes whoever waits next.
            later = WaitingReply[int](waiting.queue)
            nursery.start_soon(later.wait)
            await wait_all_tasks_blocked()
            later.set(0)

    async def run_in_time() -> None:
        with trio.fail_after(DEADLINE_S):
            await run()

    trio.run(run_in_time)


async def test_tasks_that_leave_in_large_numbers_hold_up_no_later_one() -> None:
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            queue = ReplyQueue()
            for _ in range(AWAKE_AT_ONCE):
                waiting = Waiting(nursery, 2 * AWAKE_AT_ONCE, queue)
                await wait_all_tasks_blocked()
                for place, reply in enumerate(waiting.replies):
                    reply.set(place)
                for scope in waiting.scopes[AWAKE_AT_ONCE:]:
                    scope.cancel()
                await wait_all_tasks_blocked()
            later = WaitingReply[int](queue)
            nursery.start_soon(later.wait)
            await wait_all_tasks_blocked()
            later.set(0)


async def test_a_reply_that_is_set_before_its_task_waits_is_returned_at_once() -> None:
    reply = WaitingReply[int](ReplyQueue())
    reply.set(7)
    assert await reply.wait() == reply.nowait() == 7
