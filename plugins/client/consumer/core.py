"""Core of a consumer, the same for every driver: its parts, and when each of them has something to do.

    Engine ─▶ PartitionPrefetcher ─▶ PartitionPosition.buffer ─▶ BufferedRecords ─▶ poll
       │      PositionLookup ──────▶ PartitionPosition.position ─▶ OffsetCommits
       └────▶ GroupMembership ─────▶ GroupSubscription ─▶ AssignedPartitions

No method waits. Those of the engine's side are called by the driver with its lock; those of the user's side
take it, but not while records are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.allocator import keep_freed_blocks
from tidelog.plugins.client.consumer.assigned_partitions import AssignedPartitions
from tidelog.plugins.client.consumer.buffered_records import BufferedRecords
from tidelog.plugins.client.consumer.group_subscription import GroupSubscription
from tidelog.plugins.client.consumer.interceptors import ConsumerInterceptors
from tidelog.plugins.client.consumer.membership import no_steps
from tidelog.plugins.client.consumer.offset_commits import OffsetCommits
from tidelog.plugins.client.consumer.position_lookup import PositionLookup
from tidelog.plugins.client.consumer.prefetching import PartitionPrefetcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.steps import Steps

_KEPT_BYTES: Final = 8 * 1024 * 1024
"""More than the arrays of a table's columns have, and most responses."""


class ConsumerCore:
    """A consumer without its driver.

    Attributes:
        records: what was fetched ahead
        group: the subscription
        commits: the commits of positions
    """

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        new_event: Callable[[], Any],
        lock: AbstractContextManager[Any],
    ) -> None:
        keep_freed_blocks(_KEPT_BYTES)
        positions = self._positions = AssignedPartitions()
        self._engine = engine
        self._settings = settings
        self._new_event = new_event
        self._lock = lock
        self._event: Any = None
        self._timer: EngineTimer | None = None
        self._is_pump_due = False
        self._interceptors = ConsumerInterceptors(settings.interceptors)
        self._prefetcher = PartitionPrefetcher(engine, settings, positions, self._changed)
        records = self.records = BufferedRecords(
            settings, positions, lock, self._interceptors, self._request_pump
        )
        group = self.group = GroupSubscription(engine, settings, positions, lock, self._changed)
        self._lookup = PositionLookup(engine, settings, positions, self._prefetcher, group, self._changed)
        self.commits = OffsetCommits(engine, settings, positions, group, records, self._interceptors, lock)

    # What the user calls.

    @property
    def is_closed(self) -> bool:
        """Return whether nothing can be called any more."""
        return self._positions.is_closed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that are assigned already keep their positions."""
        with self._lock:
            self._positions.check_open()
            if self.group.membership is not None:
                raise ValueError("this consumer has a subscription: unsubscribe before you assign")
            self.records.end_chunk()
            self._positions.replace(partitions)
            self._request_pump()

    def unsubscribing(self) -> Steps[None]:
        """Return the operation that leaves the group; without a group partitions are given up alone."""
        with self._lock:
            self.records.end_chunk()
            self._positions.clear()
            return self.group.leaving()

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        with self._lock:
            return set(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue a partition at an offset.

        Raises:
            NotAssigned: it is not assigned.
            ValueError: the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"an offset is at least 0, not {offset}")
        with self._lock:
            state = self._positions.state(partition)
            self.records.end_chunk()
            state.seek(offset)
            self._request_pump()

    def seek_to(self, partitions: Iterable[TopicPartition], reset: str) -> None:
        """Continue partitions, by default all, where a reset policy says; raises `NotAssigned`."""
        with self._lock:
            states = self._positions.states(partitions) or list(self._positions.values())
            self.records.end_chunk()
            for state in states:
                state.seek_to(reset)
            self._request_pump()

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Return nothing of partitions, or return them again; raises `NotAssigned`."""
        with self._lock:
            self.records.end_chunk()
            for state in self._positions.states(partitions):
                state.is_paused = is_paused
            self._request_pump()

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._lock:
            return {partition for partition, state in self._positions.items() if state.is_paused}

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record, None until it is known.

        Raises:
            NotAssigned: it is not assigned.
            ClientError: why it cannot be known.
        """
        with self._lock:
            state = self._positions.state(partition)
            if state.position is None and state.has_error:
                self.records.raise_error(state)
            return self.records.position_of(state)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets follow the position, None until that is known; raises `NotAssigned`."""
        with self._lock:
            state = self._positions.state(partition)
            end = state.last_stable_offset if self._settings.is_committed_only else state.high_watermark
            position = self.records.position_of(state)
            return None if end < 0 or position is None else max(0, end - position)

    def begin_poll(self) -> None:
        """Commit what was returned before if it is time to; a call of `poll` begins with it.

        Raises:
            ClientClosed: the consumer is closed.
            ClientError: what has failed meanwhile.
        """
        with self._lock:
            self._positions.check_open()
            self.records.end_chunk()
            self.commits.auto_commit()
            self.group.polled()

    def waiter(self) -> Any:
        """Return an event that is set when there is something to take, or None if there is already."""
        with self._lock:
            if self.is_closed or self.group.needs_poll:
                return None
            if self.records.has_chunk or self._positions.has_data():
                return None
            return self._next_event()

    def change_event(self) -> Any:
        """Return an event that is set at the next change of a position or a buffer."""
        with self._lock:
            return self._next_event()

    def closing(self) -> Steps[None]:
        """Return the operation that commits, if that is automatic, and closes the fetch sessions."""
        with self._lock:
            self.records.mark_chunk()
            commit = self.commits.last_commit() or no_steps()
            leave = self.group.leaving()
            self._positions.close()
            self._wake()
        return self._close(commit, leave)

    # What follows from it.

    def _next_event(self) -> Any:
        if self._event is None:
            self._event = self._new_event()
        return self._event

    def _wake(self) -> None:
        """Have those look again who wait."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    def _changed(self) -> None:
        self._request_pump()
        self._wake()

    def _request_pump(self) -> None:
        """Look at what has to be requested once the driver is there."""
        if not self._is_pump_due and not self._engine.is_closed:
            self._is_pump_due = True
            self._engine.soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        if self.is_closed or self._engine.is_closed:
            return
        self._lookup.look_up()
        due = self._prefetcher.pump()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._engine.call_at(due, self._pump)

    def _close(self, commit: Steps[None], leave: Steps[None]) -> Steps[None]:
        yield from commit
        yield from leave
        yield from self._prefetcher.close_sessions()
        self._interceptors.close()
