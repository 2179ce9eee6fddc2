"""Busy polling for a client in a closed loop: one small request, its answer, the next small request.

Waking up a process that sleeps in `epoll_wait` takes longer than serving such a request. So the event loop
keeps running for up to `socket.busy.poll.us` after the answer, as `net.core.busy_poll` of Linux does for a
socket. That costs a processor, so it happens only

- for small requests of few records: others are worth more than what a wake-up takes, to the broker or to a
  client that was busy with them, and wants the processor for the next ones;
- after `CLOSED_LOOP_REQUESTS` requests that each came within that time of the answer before;
- for one connection at a time, and
- while no process waits for a processor: the kernel's count of runnable tasks is read in each turn, and a
  system that does not publish it (`/proc/loadavg`) is never polled on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final, Self

import trio

SMALL_BYTES: Final = 32 * 1024
"""The largest request that is waited for: a fetch, a heartbeat, a batch of a producer's default size."""
FEW_RECORDS: Final = 64
"""The most records in a request that is waited for. To make one takes a client's library a microsecond or
two, and to be woken up about as long as to make these."""
CLOSED_LOOP_REQUESTS: Final = 4
"""Prompt small requests in a row that show a closed loop. With more of them, a client whose requests are late
now and then, as on every virtual machine, would mostly be slept on."""
FULL_TURNS: Final = 8
"""Turns in a row without an idle processor that end a poll, but not the closed loop: a client that switches
between its threads has two of them runnable for a moment."""
_LOADAVG: Final = Path("/proc/loadavg")
_LOADAVG_BYTES: Final = 64
_NOT_OPEN: Final = -1
_NEVER: Final = float("-inf")


class Processors:
    """The processors of this process, and whether one of them has nothing else to run.

    A context manager: outside of it, and on a system without `/proc/loadavg`, none is idle.
    """

    __slots__ = ("_count", "_file", "_path")

    def __init__(self, path: Path = _LOADAVG, count: int | None = None) -> None:
        """`count`: how many there are, by default those that this process may use."""
        self._path = path
        self._count = _usable_processors() if count is None else count
        self._file = _NOT_OPEN

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file != _NOT_OPEN:
            os.close(self._file)
            self._file = _NOT_OPEN

    def one_is_idle(self) -> bool:
        """Return whether this process can keep a processor that no other task waits for.

        There must be two of them, since the client needs one.
        """
        if self._file == _NOT_OPEN or self._count < 2:
            return False
        # "0.18 0.32 0.17 3/97 7746": three of 97 tasks are runnable, this one included.
        runnable = os.pread(self._file, _LOADAVG_BYTES, 0).split(b" ", 4)[3].partition(b"/")[0]
        return int(runnable) <= self._count


class BusyPoll:
    """What the connections of a server share: the time limit, and which connection is polled for."""

    __slots__ = ("now", "polled", "processors", "seconds")

    def __init__(
        self, seconds: float, processors: Processors, now: Callable[[], float] = perf_counter
    ) -> None:
        """Poll for `seconds` after an answer at most; 0 switches it off."""
        self.seconds = seconds
        self.processors = processors
        self.now = now
        self.polled: ClosedLoop | None = None


class ClosedLoop:
    """One connection's part: it counts prompt small requests, and decides whether to poll."""

    __slots__ = ("_answered_at", "_full_turns", "_prompt", "_shared")

    def __init__(self, shared: BusyPoll) -> None:
        self._shared = shared
        self._answered_at = _NEVER
        self._prompt = 0
        self._full_turns = 0

    def received(self, count: int) -> None:
        """Note that `count` bytes arrived."""
        shared = self._shared
        # What was polled for has come: another connection may be polled for while it is served.
        if shared.polled is self:
            shared.polled = None
        if count <= SMALL_BYTES and shared.now() - self._answered_at < shared.seconds:
            self._prompt += 1
        else:
            self._prompt = 0

    def answered(self, requests: int, records: int) -> None:
        """Note that all received requests are answered, and how many records the last one brought.

        In a closed loop it is exactly one request, of few records.
        """
        if requests != 1 or records > FEW_RECORDS:
            self.stop()
        self._answered_at = self._shared.now()

    def should_poll(self) -> bool:
        """Return whether to try again at once rather than to sleep, as nothing has arrived yet."""
        if self._prompt < CLOSED_LOOP_REQUESTS:
            return False
        shared = self._shared
        if shared.polled not in (None, self) or shared.now() - self._answered_at >= shared.seconds:
            self.stop()
            return False
        if not self._may_keep_a_processor():
            self._pause()
            return False
        shared.polled = self
        return True

    def _may_keep_a_processor(self) -> bool:
        self._full_turns = 0 if self._shared.processors.one_is_idle() else self._full_turns + 1
        return self._full_turns < FULL_TURNS

    def stop(self) -> None:
        """Poll no more until the client has shown a closed loop again; for example after a long answer."""
        self._prompt = 0
        self._pause()

    def _pause(self) -> None:
        """Sleep until the next request, and let another connection be polled for."""
        self._full_turns = 0
        if self._shared.polled is self:
            self._shared.polled = None


async def let_others_run() -> None:
    """Let the other tasks run, and then yield the processor to other processes, such as the client."""
    await trio.lowlevel.checkpoint()
    yield_processor()


def _no_yield() -> None:
    """Stand in where the system has no `sched_yield`."""


yield_processor: Final[Callable[[], None]] = getattr(os, "sched_yield", _no_yield)
"""Let other processes run that wait for this processor."""


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
