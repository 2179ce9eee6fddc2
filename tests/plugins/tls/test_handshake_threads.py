"""Threads for handshakes: what is returned, raised and waited for."""

from __future__ import annotations

import os
import sys
import threading

import pytest
import trio
import trio.testing

from tests.deadlines import wait_until
from tidelog.plugins.tls.handshake_threads import NICENESS, HandshakeThreads


async def test_run_returns_or_raises_what_the_function_does_in_another_thread() -> None:
    threads = HandshakeThreads(1)
    used = [await threads.run(threading.current_thread) for _ in range(3)]
    assert len(set(used)) == 1
    assert used[0] is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    threads.close()
    await trio.to_thread.run_sync(wait_until, lambda: not used[0].is_alive(), "the thread ends")


async def test_who_is_cancelled_waits_until_the_function_has_ended() -> None:
    threads, may_end, has_ended = HandshakeThreads(1), threading.Event(), []

    def step() -> None:
        may_end.wait()
        has_ended.append(True)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(threads.run, step)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            assert not has_ended
            may_end.set()
    assert has_ended
    threads.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have priorities of their own")
async def test_the_threads_come_after_the_event_loop() -> None:
    threads, before = HandshakeThreads(1), os.getpriority(os.PRIO_PROCESS, 0)
    niceness = await threads.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    assert niceness == min(before + NICENESS, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    threads.close()
