"""Metadata of the topics of a producer: looked up, requested again, and applied to their queues."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.sending import refresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.producer.accumulator import Accumulator, TopicQueues
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.settings import ProducerSettings

_MOST_METADATA_S: Final = 30.0


class TopicLookups:
    """What a producer knows of its topics.

    `changed` is called after each answer, `finished` with a batch whose topic cannot be found.
    """

    def __init__(
        self,
        engine: Engine,
        accumulator: Accumulator[Any],
        settings: ProducerSettings,
        changed: Callable[[], None],
        finished: Callable[[Batch], None],
    ) -> None:
        self._engine = engine
        self._cluster = engine.session.cluster
        self._accumulator = accumulator
        self._retry = settings.retry
        self._max_block_s = settings.max_block_ms / 1000
        self._max_age_s = settings.metadata_max_age_ms / 1000
        self._changed = changed
        self._finished = finished
        self._is_refreshing = False
        self._refresh_at = 0.0
        self._refresh_failures = 0
        self._age_timer: EngineTimer | None = None

    def look_up(self, topic: TopicQueues, since: float, failures: int = 0) -> None:
        """Request the metadata of a topic, and have it created where brokers do that."""

        def done(outcome: ClusterMetadata | ClientError) -> None:
            error = outcome if isinstance(outcome, ClientError) else _error_of(topic.name, outcome)
            if error is None:
                self._follow(topic)
                self._watch_age()
            elif isinstance(outcome, ClientError) and outcome.retriable and self._has_time(since):
                when = self._engine.clock() + self._retry.pause_s(failures)
                self._engine.call_at(when, lambda: self.look_up(topic, since, failures + 1))
                return
            else:
                waiting = self._accumulator.fail_waiting(topic, error)
                if waiting is not None:
                    self._finished(waiting)
            self._changed()

        timeout_s = max(0.001, since + self._max_block_s - self._engine.clock())
        self._engine.spawn(
            metadata(self._engine.session, [topic.name], create=True), done, timeout_s=timeout_s
        )

    def refresh(self, now: float) -> float:
        """Request the metadata of all topics; return when that may be done again."""
        if self._is_refreshing:
            return math.inf
        if self._refresh_at > now:
            return self._refresh_at
        self._is_refreshing = True
        names = sorted(topic.name for topic in self._accumulator.topics.values() if topic.queues)
        self._engine.spawn(refresh(self._engine.session, names), self._refreshed, timeout_s=_MOST_METADATA_S)
        return math.inf

    def _has_time(self, since: float) -> bool:
        return self._engine.clock() - since < self._max_block_s

    def _refreshed(self, outcome: ClusterMetadata | ClientError) -> None:
        self._is_refreshing = False
        # Metadata without a leader is no better than none: both are asked for again after a pause.
        self._refresh_at = self._engine.clock() + self._retry.pause_s(self._refresh_failures)
        if isinstance(outcome, ClientError):
            self._refresh_failures += 1
        else:
            self._refresh_failures = 0
            for topic in self._accumulator.topics.values():
                if topic.queues:
                    self._follow(topic)
        self._changed()

    def _follow(self, topic: TopicQueues) -> None:
        """Apply the cached metadata of a topic to its queues."""
        known = self._cluster.topic(topic.name)
        if known is not None and known.partitions:
            count = known.partitions[-1].index + 1
            led = [part.index for part in known.partitions if part.leader in self._cluster.brokers]
            self._accumulator.follow(topic, count, led)

    def _watch_age(self) -> None:
        """Request metadata again after `metadata_max_age_ms`, so that new partitions are found."""
        if self._age_timer is not None:
            return
        self._age_timer = self._engine.call_at(self._engine.clock() + self._max_age_s, self._aged)

    def _aged(self) -> None:
        self._age_timer = None
        self.refresh(self._engine.clock())
        self._watch_age()


def _error_of(name: str, found: ClusterMetadata) -> ClientError | None:
    code = found.errors.get(name)
    return None if code is None else ErrorResponse(code, f"topic {name!r}")
