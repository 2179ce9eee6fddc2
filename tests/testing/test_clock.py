"""The clock of a server for tests."""

from __future__ import annotations

import queue
import threading

import trio

from tests.deadlines import DEADLINE_S
from tidelog.testing import ShiftedClock


def test_advance_ends_a_sleep_in_an_event_loop_where_nothing_else_happens() -> None:
    clock = ShiftedClock()
    started: queue.SimpleQueue[trio.lowlevel.TrioToken] = queue.SimpleQueue()

    async def main() -> None:
        started.put(trio.lowlevel.current_trio_token())
        await trio.sleep(24 * 3600)

    thread = threading.Thread(target=trio.run, args=(main,), kwargs={"clock": clock}, daemon=True)
    thread.start()
    token = started.get(timeout=DEADLINE_S)
    clock.wake_by(lambda: token.run_sync_soon(int))
    clock.advance(hours=23)
    thread.join(0.05)
    assert thread.is_alive()
    before = clock.now_ms
    clock.advance(hours=1)
    assert clock.now_ms - before >= 3_600_000
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
