"""One configured sink: it is created, run, and run again when it has failed.

Whatever it does, the broker and other sinks keep running: an error is logged, and after a time that grows
with each failure a new object runs with a new feed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs
import trio

from tidelog.kernel.config.sinks import (
    ISOLATION_LEVEL,
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    TOPICS,
    TOPICS_REGEX,
)
from tidelog.kernel.errors import ConfigError, InvalidRegularExpression, PluginError, TidelogError
from tidelog.kernel.regex_matching import matching
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.sinks.committed_log import PartitionLog
from tidelog.kernel.sinks.feed import Feed, receives_topic
from tidelog.kernel.sinks.statistics import SinkState, SinkStatistics
from tidelog.kernel.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.kernel.config import SinkName
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.seams.events import Event
    from tidelog.kernel.seams.sinks import Sink, SinkContext, SinkKind
    from tidelog.kernel.seams.tasks import Lifespan

_log = logging.getLogger(__name__)


class SupervisedSink:
    """The runs of one sink, one after another; `threads` bounds the reads of all sinks that need one."""

    def __init__(self, context: SinkContext, kind: SinkKind, threads: trio.CapacityLimiter) -> None:
        self._context = context
        self._kind = kind
        self._threads = threads
        self._created: Sink | None = None
        self._feed: Feed | None = None
        self._statistics = SinkStatistics()
        self._seen_activity = (0, 0, 0)
        self._is_stalled = False

    @property
    def name(self) -> SinkName:
        """Its kind and its name."""
        return self._context.name

    def create(self) -> None:
        """Create the object for the first run, before the broker opens anything.

        Raises:
            ConfigError: the sink cannot be used as it is configured.
            PluginError: its kind is broken.
        """
        self._created = self._new_sink()

    async def run(self, lifespan: Lifespan) -> None:
        """Run the sink until the broker stops or it returns, and again after each failure."""
        lifespan.ready()
        config = self._context.config
        first_ms, longest_ms = config[RETRY_BACKOFF_MS], config[RETRY_BACKOFF_MAX_MS]
        backoff_ms = first_ms
        stopping = False
        while not stopping:
            started = trio.current_time()
            failure = await self._run_once(lifespan)
            if failure is None:
                break
            # A run that lasted is no part of a row of failures: the next one need not wait long.
            if (trio.current_time() - started) * 1000 >= longest_ms:
                backoff_ms = first_ms
            self._note_failure(failure, backoff_ms)
            with trio.move_on_after(backoff_ms / 1000):
                await lifespan.wait_stopping()
                stopping = True
            backoff_ms = min(2 * backoff_ms, longest_ms)
        self._statistics.state = SinkState.ENDED

    def follow(self, names: Collection[str]) -> None:
        """Report what has changed of topics with these names to the sink, if it runs."""
        if self._feed is not None:
            self._feed.follow(names, self._context.broker.topics)

    def on_event(self, event: Event) -> None:
        """Report partitions whose log directory failed to the sink, if it runs."""
        if self._feed is not None:
            self._feed.on_event(event)

    def statistics(self) -> SinkStatistics:
        """Return what the sink has done since the start."""
        feed = self._feed
        if feed is None:
            return attrs.evolve(self._statistics)
        return attrs.evolve(self._statistics, partitions=len(feed.logs), untaken=feed.untaken, lag=feed.lag)

    def log_if_stalled(self, since_s: float) -> None:
        """Log, once, that the sink has done nothing since the last call, though there is something to do."""
        found = self._statistics
        activity = (found.takes, found.read_chunks, found.failures)
        untaken = self._feed.untaken if self._feed is not None else 0
        is_stalled = bool(untaken) and activity == self._seen_activity
        self._seen_activity = activity
        if is_stalled and not self._is_stalled:
            _log.warning(
                "sink %s has taken nothing from its feed for %g s, though there is news of %d partition(s)",
                self.name,
                since_s,
                untaken,
            )
        self._is_stalled = is_stalled

    async def _run_once(self, lifespan: Lifespan) -> BaseException | None:
        """Run a sink with a feed of its own; return its error, None if it has returned."""
        try:
            # The object of `create` is for the first run only: a failed one may have kept anything.
            sink, self._created = self._created or self._new_sink(), None
            feed = await self._new_feed()
        except (ConfigError, PluginError, InvalidRegularExpression) as error:
            return error
        self._feed, self._statistics.state = feed, SinkState.STARTING
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_with_broker, feed, lifespan)
                failure = await self._outcome(sink, feed)
                nursery.cancel_scope.cancel()
        finally:
            self._feed, self._statistics.state = None, SinkState.WAITING
            # Whatever ended the run: waiters that stay would be called by each append.
            feed.close()
        if failure is None and not feed.stopping:
            _log.warning("sink %s has ended by itself; it runs again when the broker is restarted", self.name)
        return failure

    async def _outcome(self, sink: Sink, feed: Feed) -> BaseException | None:
        """Return the error of a run; a program that a sink embeds may also try to end the process."""
        try:
            await sink.run(feed)
        # SystemExit derives from BaseException alone, and would end the broker.
        except (Exception, SystemExit) as error:
            return error
        except trio.Cancelled:
            _log.warning("sink %s had not ended when the time to stop was over: it is cancelled", self.name)
            raise
        return None

    def _new_sink(self) -> Sink:
        try:
            sink = self._kind.create(self._context)
        except ConfigError as error:
            raise ConfigError(f"[{self.name.table}]: {error}") from error
        except Exception as error:
            raise PluginError(
                f"The sink {self.name} cannot be created: {type(error).__name__}: {error}"
            ) from error
        if not callable(getattr(sink, "run", None)):
            raise PluginError(f"The kind of sink {self.name.kind} creates {sink!r}, which has no method run.")
        return sink

    async def _new_feed(self) -> Feed:
        config = self._context.config
        read_committed = config[ISOLATION_LEVEL] == "read_committed"
        isolation = Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED

        def make_log(partition: UnifiedLog) -> PartitionLog:
            return PartitionLog(partition, isolation, self._threads, self._statistics)

        # Of thousands of topics before the feed is there: matching all of them may take a thread a while.
        names = {topic.name for topic in self._context.broker.topics}
        matched = await self._matched(names)

        def receives(topic: str) -> bool:
            return topic in matched or (topic not in names and receives_topic(config, topic))

        feed = Feed(receives, isolation, make_log, self._statistics)
        for topic in self._context.broker.topics:
            feed.add_topic(topic)
        return feed

    async def _matched(self, names: Collection[str]) -> Collection[str]:
        """Return the topics out of these that the sink receives."""
        config = self._context.config
        pattern = config[TOPICS_REGEX]
        if pattern is None:
            return config[TOPICS]
        return await matching(pattern.compiled, [name for name in names if name not in INTERNAL_TOPICS])

    def _note_failure(self, error: BaseException, backoff_ms: int) -> None:
        self._statistics.failures += 1
        self._statistics.last_error = repr(error)
        # What is raised on purpose and what the system refuses says enough.
        is_expected = isinstance(error, TidelogError | OSError)
        _log.error(
            "sink %s failed, and runs again in %g s: %s: %s",
            self.name,
            backoff_ms / 1000,
            type(error).__name__,
            error,
            exc_info=None if is_expected else error,
        )


async def _stop_with_broker(feed: Feed, lifespan: Lifespan) -> None:
    await lifespan.wait_stopping()
    feed.stop()
