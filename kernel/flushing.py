"""Flushing by time: what was appended is forced to disk when `flush.ms` has passed since the last flush."""

from __future__ import annotations

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import Config, keys
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.partition import Partition
from tidelog.kernel.tasks import PeriodicTask
from tidelog.kernel.topics import Topics

DEFAULT_LOOK_MS = 1000
"""How often to look when `log.flush.scheduler.interval.ms` does not say."""


@attrs.define(eq=False)
class TimedFlush:
    """Flushes every partition whose unflushed records have waited for `flush.ms`."""

    _topics: Topics
    _clock: Clock
    _waiting_since: dict[Partition, int] = attrs.field(factory=dict[Partition, int])

    async def run(self) -> None:
        """Look at every partition once."""
        now = self._clock()
        seen: dict[Partition, int] = {}
        async with trio.open_nursery() as flushes:
            for partition in self._topics.partitions():
                if partition.config.flush_ms == LONG_MAX or not partition.has_unflushed:
                    continue
                if partition.offline is not None:
                    continue
                # A wall clock may be set back: then the waiting begins anew instead of lasting for ever.
                since = min(self._waiting_since.get(partition, now), now)
                if now - since >= partition.config.flush_ms:
                    flushes.start_soon(partition.flush)
                else:
                    seen[partition] = since
        self._waiting_since = seen


def timed_flush_task(config: Config, topics: Topics, clock: Clock) -> PeriodicTask:
    """The background task that flushes by time."""
    interval = config[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]
    every = DEFAULT_LOOK_MS if interval == LONG_MAX else interval
    delay = config[keys.LOG_INITIAL_TASK_DELAY_MS]
    return PeriodicTask("log-flusher", TimedFlush(topics, clock).run, every, delay)
