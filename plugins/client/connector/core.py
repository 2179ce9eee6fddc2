"""Core of a connector, the same for every driver: its streams, their partitions, and commits.

    coordination ── start, stop ──▶ ConnectorCore ── StreamState ──▶ the user's iterations
                                         │
                                    ConsumerCore ── positions, fetches ahead

The coordination says which partitions feed which streams, and the streams hand out records as soon as they
are fetched. So partitions come and go while the user iterates, without waiting for any stream: what was not
returned is taken back. Nothing here waits. Methods of the user's side take the driver's lock, all others are
called with it.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.client.connector.streams import PartitionFeed, StreamState
from tidelog.plugins.client.consumer.core import ConsumerCore
from tidelog.plugins.client.errors import ClientClosed, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.coordination import Coordination
    from tidelog.plugins.client.connector.settings import ConnectorSettings
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.engine import Engine, EngineTimer

_LOG: Final = logging.getLogger(__name__)
_POLLS_PER_INTERVAL: Final = 3
"""How often a waiting stream counts as a poll within `max_poll_interval_ms`."""


class _Bell:
    """Stands for an event of the consumer's core: it calls instead of being waited for."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.set = ring


class ConnectorCore:
    """A connector without its driver.

    Attributes:
        settings: of the connector
        engine: runs its operations
        consumer: fetches; its methods are called with the driver's lock
        streams: all streams
        coordination: set before streams are created
        is_closed: nothing can be called any more
        is_paused: no stream returns anything for now
    """

    coordination: Coordination

    def __init__(
        self,
        engine: Engine,
        settings: ConnectorSettings,
        new_event: Callable[[], Any],
        lock: AbstractContextManager[Any],
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.streams: list[StreamState] = []
        self.is_closed = False
        self.consumer = ConsumerCore(
            engine, settings.consumer(), lambda: _Bell(self._consumer_changed), nullcontext()
        )
        self._new_event = new_event
        self._lock = lock
        self._feeds: dict[TopicPartition, PartitionFeed] = {}
        self._failure: ClientError | None = None
        self.is_paused = False
        self._is_look_due = False
        self._timers: list[EngineTimer] = []

    # What the user calls.

    def create_streams(
        self, topics: Mapping[str, int], topic_filter: TopicFilter | None = None, count: int = 0
    ) -> list[StreamState]:
        """Join the group with so many streams of each topic, or with `count` streams for those of a filter.

        Raises:
            ValueError: the connector has streams, or is to have none.
        """
        with self._lock:
            self._check_open()
            if self.streams:
                raise ValueError("this connector has streams: all of them are created at once")
            numbers = topics.items() if topic_filter is None else [(None, count)]
            for topic, number in numbers:
                if number < 1:
                    raise ValueError(f"{topic or 'a filter'} has at least one stream, not {number}")
                self.streams += [StreamState(topic, index) for index in range(number)]
            if not self.streams:
                raise ValueError("no topic is named")
            self.coordination.join(topics, topic_filter, count)
            self._repeat(self.settings.max_poll_interval_ms / _POLLS_PER_INTERVAL, self._poll_for_waiting)
            if self.settings.enable_auto_commit:
                self._repeat(self.settings.auto_commit_interval_ms, self._auto_commit)
            self._consumer_changed()
            return self.streams

    def refill(self, stream: StreamState) -> Any:
        """Decode more records of a stream whose last ones were all returned.

        Return None if there are some, or the stream has ended; else an event that is set when there may be.

        Raises:
            ClientError: a partition cannot be read, or the group cannot be joined.
        """
        with self._lock:
            if self.is_closed:
                return None
            self._poll()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            found = None if self.is_paused else self.consumer.records.begin_read(stream.feeds)
            if found is None:
                stream.event = self._new_event()
                return stream.event
            state, cursor = found
            feed = stream.feeds[state.partition]
        # Without the lock: other streams are decoded by other threads meanwhile. What has taken the partition
        # away since then has moved its position, and so made this cursor void.
        records = cursor.read_records(self.settings.max_poll_records)
        with self._lock:
            if self.consumer.records.finish_read(state, cursor, is_at_end=not records) and records:
                stream.fill(feed, records, cursor.next_offset)
        return None

    def assignment(self) -> dict[TopicPartition, int]:
        """Return the partitions, and the number of the stream that each of them feeds."""
        with self._lock:
            return {partition: feed.stream.number for partition, feed in sorted(self._feeds.items())}

    def commit(self, done: Callable[[ClientError | None], None]) -> None:
        """Commit what was returned; `done` gets the error, None without one."""
        with self._lock:
            self._check_open()
            self._commit(done)

    def shut_down(self, done: Callable[[], None]) -> None:
        """Take back what was not returned, commit the rest if that is automatic, and leave the group."""
        with self._lock:
            if self.is_closed:
                done()
                return
            self.is_closed = True
            for timer in self._timers:
                timer.cancel()
            for stream in self.streams:
                stream.wake()
            self.coordination.leave(lambda: self._left(done))

    # What the coordination calls.

    def start(self, owners: Mapping[TopicPartition, StreamState]) -> None:
        """Feed streams with partitions that the consumer reads."""
        for partition, stream in owners.items():
            self._feeds[partition] = stream.feeds[partition] = PartitionFeed(partition, stream)
        self._consumer_changed()

    def stop(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return nothing of these from now on; return what was consumed of each and is not committed."""
        feeds = [self._feeds.pop(each) for each in partitions if each in self._feeds]
        for feed in feeds:
            self._take_back(feed)
            del feed.stream.feeds[feed.partition]
        return _unsaved(feeds)

    def move(self, owners: Mapping[TopicPartition, StreamState]) -> None:
        """Feed other streams of this connector with partitions, from where they were consumed."""
        for partition, stream in owners.items():
            feed = self._feeds[partition]
            self._take_back(feed)
            del feed.stream.feeds[partition]
            feed.stream = stream
            stream.feeds[partition] = feed
        self._consumer_changed()

    def pause(self) -> None:
        """Return nothing before `resume`."""
        self.is_paused = True
        for feed in self._feeds.values():
            self._take_back(feed)

    def resume(self) -> None:
        """Return records again."""
        self.is_paused = False
        for stream in self.streams:
            stream.wake()

    def consumed(self) -> dict[TopicPartition, int]:
        """Return what was consumed of each partition and is not committed."""
        return _unsaved(self._feeds.values())

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that these offsets are committed."""
        for partition, offset in offsets.items():
            feed = self._feeds.get(partition)
            if feed is not None:
                feed.committed = offset

    def fail(self, error: ClientError) -> None:
        """Have an iteration raise an error."""
        self._failure = error
        for stream in self.streams:
            stream.wake()

    # What follows from it.

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("this connector was shut down")

    def _take_back(self, feed: PartitionFeed) -> None:
        """Take back what was not returned of a partition, also what another thread decodes at this moment."""
        self.consumer.records.take_back(feed.partition, feed.stream.take_back(feed))

    def _consumer_changed(self) -> None:
        if not self._is_look_due and not self.engine.is_closed:
            self._is_look_due = True
            self.engine.soon(self._look)

    def _look(self) -> None:
        """Apply what the consumer has found out, and wake the streams for which there is something."""
        self._is_look_due = False
        if self.is_closed:
            return
        # Before it is looked at: what changes later rings again.
        self.consumer.change_event()
        self.coordination.consumer_changed()
        self._poll_for_waiting()
        for stream in self.streams:
            if self._failure is not None or self.consumer.records.has_data_of(stream.feeds):
                stream.wake()

    def _poll_for_waiting(self) -> None:
        """Keep the member alive while a stream waits, that is while the user asks for records."""
        if any(stream.event is not None for stream in self.streams):
            self._poll()

    def _poll(self) -> None:
        try:
            self.consumer.begin_poll()
        except ClientError as error:
            self.fail(error)

    def _auto_commit(self) -> None:
        self._commit(self._auto_committed)

    def _auto_committed(self, error: ClientError | None) -> None:
        if error is not None and not self.is_closed:
            # The next one commits more, and a member that the group has dropped joins again.
            _LOG.warning("an automatic commit of group %r failed: %s", self.settings.group, error)

    def _commit(self, done: Callable[[ClientError | None], None]) -> None:
        offsets = self.consumed()
        if not offsets:
            done(None)
            return

        def ended(error: ClientError | None) -> None:
            if error is None:
                self.committed(offsets)
            done(error)

        self.coordination.commit(offsets, ended)

    def _repeat(self, interval_ms: float, call: Callable[[], None]) -> None:
        """Call at intervals until the connector is shut down."""
        when = self.engine.clock() + max(interval_ms, 1) / 1000

        def due() -> None:
            self._timers.remove(timer)
            call()
            if not self.is_closed:
                self._repeat(interval_ms, call)

        timer = self.engine.call_at(when, due)
        self._timers.append(timer)

    def _left(self, done: Callable[[], None]) -> None:
        self.engine.spawn(
            self.consumer.closing(), lambda _outcome: done(), timeout_s=self.settings.api_timeout_s
        )


def _unsaved(feeds: Iterable[PartitionFeed]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for feed in feeds:
        consumed = feed.stream.consumed_of(feed)
        if consumed is not None and consumed != feed.committed:
            found[feed.partition] = consumed
    return found
