"""Periodic maintenance: flushing by time (`flush.ms`), expiry of idle producers and of delegation tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import Config, keys
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.metadata.delegation_tokens import secret_key_of
from tidelog.kernel.seams.tasks import PeriodicTask

if TYPE_CHECKING:
    from tidelog.kernel.seams.controller import Controller
    from tidelog.kernel.topics import Topics


DEFAULT_LOOK_MS = 1000
"""How often partitions are checked unless `log.flush.scheduler.interval.ms` is set."""


@attrs.define(eq=False)
class TimedFlush:
    """Flushes every partition whose unflushed records have waited for `flush.ms`."""

    _topics: Topics
    _clock: Clock
    _waiting_since: dict[UnifiedLog, int] = attrs.field(factory=dict[UnifiedLog, int])

    async def run(self) -> None:
        """Check every partition once."""
        now = self._clock()
        seen: dict[UnifiedLog, int] = {}
        async with trio.open_nursery() as flushes:
            for topic in self._topics:
                flush_ms = topic.config[keys.FLUSH_MS]
                if flush_ms == LONG_MAX:
                    continue
                for log in (partition.log for partition in topic.partitions):
                    if not log.has_unflushed or log.offline is not None:
                        continue
                    # A wall clock may be set back: then the time starts again instead of never passing.
                    since = min(self._waiting_since.get(log, now), now)
                    if now - since >= flush_ms:
                        # It is not in `seen`, so the time of what is appended meanwhile starts again.
                        flushes.start_soon(log.flush)
                    else:
                        seen[log] = since
        self._waiting_since = seen


def timed_flush_task(config: Config, topics: Topics, clock: Clock) -> PeriodicTask:
    """Return the background task that flushes by time."""
    interval = config[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]
    every = DEFAULT_LOOK_MS if interval == LONG_MAX else interval
    delay = config[keys.LOG_INITIAL_TASK_DELAY_MS]
    return PeriodicTask("log-flusher", TimedFlush(topics, clock).run, every, delay)


@attrs.define(eq=False)
class ProducerExpiry:
    """Forgets producers that have written nothing for `producer.id.expiration.ms`, as it is at each run."""

    _config: Config
    _topics: Topics
    _clock: Clock

    async def run(self) -> None:
        """Expire the producers of every partition once, yielding in between."""
        horizon = self._clock() - self._config[keys.PRODUCER_ID_EXPIRATION_MS]
        for partition in self._topics.partitions():
            partition.log.producers.expire(horizon)
            await trio.lowlevel.checkpoint()


def producer_expiry_task(config: Config, topics: Topics, clock: Clock) -> PeriodicTask:
    """Return the background task that expires producers."""
    interval = config[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS]
    expiry = ProducerExpiry(config, topics, clock)
    return PeriodicTask("producer-id-expiration", expiry.run, interval, interval)


def token_expiry_tasks(config: Config, controller: Controller) -> Sequence[PeriodicTask]:
    """Return the background task that removes delegation tokens which have expired, none without tokens."""
    if secret_key_of(config) is None:
        return ()
    interval = config[keys.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS]
    remove = controller.remove_expired_delegation_tokens
    return (PeriodicTask("delegation-token-expiration", remove, interval, interval),)
