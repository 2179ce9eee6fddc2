"""Fetches ahead of what a consumer returns: one request to each broker at a time, within a limit of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client.consumer.positions import NO_EPOCH, NO_REPLICA
from tidelog.plugins.client.errors import ClientError, CorruptRecords, ErrorResponse
from tidelog.plugins.client.fetch_sessions import FetchSessions, WantedPartition
from tidelog.plugins.client.operations.fetching import close_fetch_sessions, fetch_from_node
from tidelog.plugins.client.operations.sending import refresh
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.consumer.positions import PartitionPosition
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.client.operations.sending import Outcomes
    from tidelog.plugins.client.steps import Steps

_LIMITS_AHEAD: Final = 4
"""So many times `max_partition_fetch_bytes` are fetched ahead of one partition, so that others have room."""
_SESSION_ERRORS: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
_EPOCH_ERRORS: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


class PartitionPrefetcher:
    """Fills the buffers of the partitions; `changed` is called when there is something new."""

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        positions: Mapping[TopicPartition, PartitionPosition],
        changed: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._positions = positions
        self._changed = changed
        self._limits = settings.limits()
        self._retry = settings.client().retry
        self._most_buffered = settings.queued_max_messages_kbytes * 1024
        self._sessions = FetchSessions()
        self._busy: set[int] = set()
        self._is_refreshing = False
        self._refreshes = 0
        self._refresh_at = 0.0

    def pump(self) -> float | None:
        """Request what is missing; return when to look again, None if something else will call."""
        now = self._engine.clock()
        cluster = self._engine.session.cluster
        room = self._most_buffered - sum(state.buffered_bytes for state in self._positions.values())
        wanted: dict[int, list[PartitionPosition]] = {}
        unknown: set[str] = set()
        due: float | None = None
        for partition, state in self._positions.items():
            if state.retry_at > now:
                due = state.retry_at if due is None else min(due, state.retry_at)
                continue
            leader = cluster.leader(partition)
            if leader is None:
                unknown.add(partition.topic)
            elif room > 0 and self._is_fetchable(state):
                wanted.setdefault(self._node_of(state, leader, now), []).append(state)
        for node, states in wanted.items():
            if node not in self._busy:
                self._fetch(node, states)
        if unknown:
            due = self._refresh(unknown, now, due)
        return due

    def close_sessions(self) -> Steps[None]:
        """Close the fetch sessions at their brokers."""
        return close_fetch_sessions(self._engine.session, self._sessions)

    def needs_check(self, state: PartitionPosition) -> bool:
        """Return whether the leader is another one since the position was validated (KIP-320)."""
        return self._engine.session.cluster.leader_epoch(state.partition) != state.checked_epoch

    def failed(self, state: PartitionPosition, error: ClientError, *, is_passing: bool = False) -> None:
        """Look at a partition again later, after the error of a request about it.

        It is for the user unless it is retriable, or `is_passing`.
        """
        self._engine.session.cluster.forget_topic(state.partition.topic)
        state.retry_at = self._engine.clock() + self._retry.pause_s(state.failures)
        state.failures += 1
        state.replica = NO_REPLICA
        if not (is_passing or error.retriable or _is_about_epochs(error)):
            state.buffer.append(error)

    def _is_fetchable(self, state: PartitionPosition) -> bool:
        return not (
            state.position is None
            or state.is_paused
            or state.is_busy
            or state.has_error
            or state.buffered_bytes >= _LIMITS_AHEAD * self._limits.partition_bytes
            or self.needs_check(state)
        )

    def _node_of(self, state: PartitionPosition, leader: int, now: float) -> int:
        if state.replica != NO_REPLICA:
            if now < state.replica_until and state.replica in self._engine.session.cluster.brokers:
                return state.replica
            state.replica = NO_REPLICA
        return leader

    def _fetch(self, node: int, states: list[PartitionPosition]) -> None:
        session = self._engine.session
        limits = self._limits
        wanted = {
            state.partition: WantedPartition(
                session.cluster.topic_id(state.partition.topic),
                state.fetch_offset,
                state.fetch_bytes or limits.partition_bytes,
                state.checked_epoch,
            )
            for state in states
        }
        largest = max(each.max_bytes for each in wanted.values())
        if largest > limits.max_bytes:
            limits = attrs.evolve(limits, max_bytes=largest)
        asked = [(state, state.version) for state in states]
        self._busy.add(node)
        operation = fetch_from_node(session, node, wanted, limits, self._sessions.with_node(node))
        self._engine.spawn(operation, lambda outcome: self._fetched(node, asked, outcome))

    def _fetched(
        self,
        node: int,
        asked: list[tuple[PartitionPosition, int]],
        outcome: Outcomes[TopicPartition, Fetched] | ClientError,
    ) -> None:
        self._busy.discard(node)
        if self._engine.is_closed:
            return
        is_session = isinstance(outcome, ErrorResponse) and outcome.code in _SESSION_ERRORS
        if not is_session:
            for state, version in asked:
                if state.version == version and self._positions.get(state.partition) is state:
                    self._apply(
                        state, outcome if isinstance(outcome, ClientError) else outcome[state.partition]
                    )
        self._changed()

    def _apply(self, state: PartitionPosition, outcome: Fetched | ClientError) -> None:
        if isinstance(outcome, ClientError):
            self._refused(state, outcome)
            return
        state.failures = 0
        state.high_watermark = outcome.high_watermark
        state.last_stable_offset = outcome.last_stable_offset
        state.log_start_offset = outcome.log_start_offset
        if outcome.preferred_replica != NO_REPLICA:
            state.replica = outcome.preferred_replica
            state.replica_until = self._engine.clock() + self._settings.metadata_max_age_ms / 1000
        if not outcome.data:
            return
        if outcome.is_cut and self._ask_for_more(state):
            return
        try:
            state.fetch_offset = outcome.next_offset()
        except CorruptRecords as error:
            state.buffer.append(error)
            return
        state.fetch_epoch = state.checked_epoch
        state.buffer.append(outcome)
        state.buffered_bytes += len(outcome.data)

    def _refused(self, state: PartitionPosition, error: ClientError) -> None:
        if isinstance(error, ErrorResponse):
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                # A follower may be behind: then the leader decides.
                if state.replica != NO_REPLICA:
                    state.replica = NO_REPLICA
                else:
                    state.buffer.append(error)
                return
            if error.code in _EPOCH_ERRORS:
                state.checked_epoch = NO_EPOCH - 1
        self.failed(state, error)

    def _ask_for_more(self, state: PartitionPosition) -> bool:
        """Double the limit of a partition whose first batch was cut; return whether it may be doubled."""
        doubled = 2 * (state.fetch_bytes or self._limits.partition_bytes)
        if doubled > self._engine.session.settings.max_response_bytes:
            return False
        state.fetch_bytes = doubled
        return True

    def _refresh(self, topics: set[str], now: float, due: float | None) -> float | None:
        """Request metadata of topics with partitions whose leader is unknown."""
        if self._is_refreshing:
            return due
        if now < self._refresh_at:
            return self._refresh_at if due is None else min(due, self._refresh_at)
        self._is_refreshing = True
        operation = refresh(self._engine.session, sorted(topics))
        self._engine.spawn(operation, self._refreshed)
        return due

    def _refreshed(self, outcome: ClusterMetadata | ClientError) -> None:
        self._is_refreshing = False
        cluster = self._engine.session.cluster
        is_complete = all(cluster.leader(partition) is not None for partition in self._positions)
        self._refreshes = 0 if is_complete else self._refreshes + 1
        if self._refreshes:
            self._refresh_at = self._engine.clock() + self._retry.pause_s(self._refreshes - 1)
        if isinstance(outcome, ClientError) and not outcome.retriable:
            for state in self._positions.values():
                if not state.has_error:
                    state.buffer.append(outcome)
        for partition, state in self._positions.items():
            code = None if isinstance(outcome, ClientError) else outcome.errors.get(partition.topic)
            if code is not None and not code.retriable and not state.has_error:
                state.buffer.append(ErrorResponse(code, f"topic {partition.topic!r}"))
        if not self._engine.is_closed:
            self._changed()


def _is_about_epochs(error: ClientError) -> bool:
    return isinstance(error, ErrorResponse) and error.code in _EPOCH_ERRORS
