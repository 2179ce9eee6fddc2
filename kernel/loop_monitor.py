"""Monitor of the event loop: log lines and statistics of what held it, and a clock without standstill.

A task beats twice within the limit. A thread looks at the last beat as often, and when it is too long
ago takes one sample of what the event loop executes; the next beat reports it. So requests and tasks pay
nothing: instruments of trio, which would see every step, take 2 µs of each and 4 µs of each pass (measured on
a slow core), where a small request takes about 40.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import FrameType
from typing import Final, NamedTuple

import attrs
import trio

from tidelog.kernel.code_places import module_of, place_of, plugin_of
from tidelog.kernel.rate_limit import RateLimit

_log = logging.getLogger(__name__)

BEATS_PER_LIMIT: Final = 2
"""A hold that is longer than the limit by half is always noticed; each beat wakes an idle broker up."""
SLOWEST_BEAT_SECONDS: Final = 0.25
COUNTED_SECONDS: Final = 0.5
"""As much of the time since the last beat counts as time in which the event loop ran."""
LOG_INTERVAL_SECONDS: Final = 10.0
"""Holds by the same kind of holder are logged no more often."""
JOIN_SECONDS: Final = 1.0

_BY_SEVERAL: Final = "several tasks, each in its turn"
_BY_NONE: Final = "no task: the process was stopped, or not scheduled"
_HOLDER: ContextVar[object] = ContextVar("holder of the event loop")


def set_holder(holder: object) -> None:
    """Have the current task, and those that it starts, appear as the text of `holder` in log lines."""
    _HOLDER.set(holder)


class LoopClock:
    """Seconds by trio's clock, except for the time in which the event loop stood still.

    Sessions and rebalances are timed by it: what the broker could not read in time must expire no member. A
    standstill is one to trio's clock and to the real one: a test may make its clock jump.
    """

    __slots__ = ("_beat", "_lost", "_now", "_real", "_real_beat")

    def __init__(
        self, now: Callable[[], float] = trio.current_time, real: Callable[[], float] = time.perf_counter
    ) -> None:
        """`now` is trio's clock in the end, `real` that of the machine; both in seconds."""
        self._now = now
        self._real = real
        self._lost = 0.0
        self._beat: float | None = None
        self._real_beat = 0.0

    def __call__(self) -> float:
        """Return the time; it never goes back."""
        now = self._now()
        beat = self._beat
        # Nearly always; each heartbeat of a member asks for the time.
        if beat is None or now - beat <= COUNTED_SECONDS:
            return now - self._lost
        return now - self._lost - self._standstill(now)

    def beat(self) -> None:
        """Note that the event loop runs; without beats no time is taken for a standstill."""
        if self._now is trio.current_time:
            # Heartbeats ask for the time: finding the clock each time takes longer than asking it.
            self._now = trio.lowlevel.current_clock().current_time
        now = self._now()
        if self._beat is not None:
            self._lost += self._standstill(now)
        # After the loss is added: from this beat on `__call__` subtracts it, so the time never goes back.
        self._beat, self._real_beat = now, self._real()

    def stop(self) -> None:
        """Take no later time for a standstill: there are no more beats."""
        self.beat()
        self._beat = None

    def _standstill(self, now: float) -> float:
        # The smaller of both: a clock that a test moves has no real standstill, and a real one does not move
        # it.
        gap = min(now - (self._beat or 0.0), self._real() - self._real_beat)
        return max(gap - COUNTED_SECONDS, 0.0)


class Sample(NamedTuple):
    """What the event loop executed: the task in its words, the plugin, and the line of code.

    All are empty if it executed nothing: it waited, or was about to.
    """

    holder: str = ""
    plugin: str = ""
    place: str = ""


@attrs.define
class LoopStatistics:
    """How often the event loop was held beyond the limit, for how long, and by what the last time.

    `longest_cpu_ms` is the most processor time of one of them: on a busy machine the rest is that of others.
    """

    stalls: int = 0
    stalled_ms: float = 0
    longest_ms: float = 0
    longest_cpu_ms: float = 0
    last: str | None = None

    def count(self, held_ms: float, cpu_ms: float, by: str) -> None:
        """Count one more."""
        self.stalls += 1
        self.stalled_ms += held_ms
        self.longest_ms = max(self.longest_ms, held_ms)
        self.longest_cpu_ms = max(self.longest_cpu_ms, cpu_ms)
        self.last = by


class LoopMonitor:
    """Watches the event loop of one broker; `clock` is that without standstill.

    `limit_ms` is how long the event loop may be held (0: no matter how long); `plugins` maps the modules of
    plugins to their names.
    """

    def __init__(self, limit_ms: float, plugins: Mapping[str, str]) -> None:
        self.clock = LoopClock()
        self._limit = limit_ms / 1000
        self._plugins = plugins
        self._statistics = LoopStatistics()
        self._log_limit = RateLimit(LOG_INTERVAL_SECONDS)
        self._longest_unlogged: dict[str, tuple[float, float]] = {}
        self._stopped = threading.Event()
        self._beat = 0.0
        self._sampled = (0.0, Sample())

    def statistics(self) -> LoopStatistics:
        """Return what was noticed so far."""
        return attrs.evolve(self._statistics)

    async def run(self) -> None:
        """Watch until cancelled."""
        period = min(self._limit / BEATS_PER_LIMIT, SLOWEST_BEAT_SECONDS) or SLOWEST_BEAT_SECONDS
        self._beat = time.perf_counter()
        watcher = threading.Thread(
            target=self._watch,
            args=(period, threading.get_ident(), trio.lowlevel.current_root_task()),
            name="loop monitor",
            # Not waited for at exit: a thread that only watches must not keep a broken process alive.
            daemon=True,
        )
        if self._limit:
            watcher.start()
        try:
            await self._beat_forever(period)
        finally:
            self.clock.stop()
            self._stopped.set()

    async def _beat_forever(self, period: float) -> None:
        cpu, time_before = time.thread_time(), trio.current_time()
        while True:
            self.clock.beat()
            await trio.sleep(period)
            beat, now, cpu_before = time.perf_counter(), trio.current_time(), cpu
            gap, cpu = beat - self._beat, time.thread_time()
            # One tuple, which the thread replaces as a whole: the beat and the sample belong together.
            sampled_beat, sample = self._sampled
            # A clock that only a test advances measures nothing.
            is_real = abs(now - time_before - gap) < period
            if is_real and gap - period > self._limit > 0:
                # A sample of an earlier hold says nothing about this one, which may have had none.
                self.report(
                    gap - period, cpu - cpu_before, sample if sampled_beat == self._beat else Sample()
                )
            self._beat, time_before = beat, now

    def report(self, held: float, cpu: float, sample: Sample) -> None:
        """Count and log a hold of so many seconds, with at most `cpu` seconds of processor time."""
        holder, plugin, place = sample
        # Some of it is of the time between the last beat and the hold.
        cpu = min(cpu, held)
        where = f", plugin {plugin}, at {place}" if plugin else f", at {place}" if holder else ""
        by = holder or place or (_BY_SEVERAL if 2 * cpu > held else _BY_NONE)
        self._statistics.count(held * 1000, cpu * 1000, f"{by}{where}")
        suppressed = self._log_limit.admit(place)
        longest = self._longest_unlogged.pop(place, (0.0, 0.0))
        if suppressed is None:
            self._longest_unlogged[place] = max(longest[0], held), max(longest[1], cpu)
            return
        up_to = f"for up to {longest[0] * 1000:.0f} ms, up to {longest[1] * 1000:.0f} of CPU"
        again = f" (and {suppressed} times more before, {up_to})" if suppressed else ""
        text = "the event loop was held for %d ms, %d of them of CPU, by %s%s%s"
        fields = {"plugin": plugin} if plugin else {}
        _log.warning(text, held * 1000, cpu * 1000, by, where, again, extra=fields)

    def _watch(self, period: float, thread: int, root: trio.lowlevel.Task | None) -> None:
        """Take a sample of every hold that is too long, in a thread of its own."""
        while not self._stopped.wait(period):
            beat = self._beat
            # One sample for each beat: the next beat reports only one hold.
            if time.perf_counter() - beat > period + self._limit and self._sampled[0] != beat:
                self._sampled = beat, take_sample(thread, root, self._plugins)


def take_sample(thread: int, root: trio.lowlevel.Task | None, plugins: Mapping[str, str]) -> Sample:
    """Return what a thread that runs trio executes now; `root` is the root of its tasks.

    It may be called from any thread: what it reads of trio are copies.
    """
    # The only way to see the frames of another thread; it is documented.
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    frames = list(_callers(frame))
    task = _running(root, frames)
    if task is None:
        return Sample()
    holder = str(task.context.get(_HOLDER, f"task {task.name}"))
    for each in frames:
        if plugin := plugin_of(module_of(each), plugins):
            return Sample(holder, plugin, place_of(each, each.f_lineno))
    own = (each for each in frames if module_of(each).startswith("tidelog."))
    first = next(own, frames[0])
    return Sample(holder, "", place_of(first, first.f_lineno))


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _running(root: trio.lowlevel.Task | None, frames: list[FrameType]) -> trio.lowlevel.Task | None:
    """Return the task whose coroutine is among these frames."""
    stack = [] if root is None else [root]
    executed = set(map(id, frames))
    while stack:
        task = stack.pop()
        if id(getattr(task.coro, "cr_frame", None)) in executed:
            return task
        for nursery in task.child_nurseries:
            stack += nursery.child_tasks
    return None
