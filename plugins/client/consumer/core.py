"""Core of a consumer, the same for every driver: positions, what is fetched ahead of them, and commits.

    Engine ─▶ PartitionPrefetcher ─▶ PartitionPosition.buffer ─▶ FetchedCursor ─▶ poll

No method waits. Those of the engine's side are called by the driver with its lock; those of the user's side
take it, but not while records are decoded.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.classic_membership import (
    AssignmentChange,
    GroupMembership,
    no_steps,
)
from tidelog.plugins.client.consumer.fetched_cursor import FetchedCursor
from tidelog.plugins.client.consumer.positions import NO_EPOCH, PartitionPosition
from tidelog.plugins.client.consumer.prefetching import PartitionPrefetcher
from tidelog.plugins.client.consumer.starting_offsets import starting_offsets
from tidelog.plugins.client.errors import (
    ClientClosed,
    ClientError,
    CorruptRecords,
    ErrorResponse,
    LogTruncated,
    NoOffset,
    NotAssigned,
    UnsupportedByBroker,
)
from tidelog.plugins.client.operations.group_offsets import (
    GroupMetadata,
    GroupOffset,
    commit_offsets,
)
from tidelog.plugins.client.operations.leader_epochs import end_of_epoch
from tidelog.plugins.client.operations.sending import Outcomes, or_raise
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
    from tidelog.plugins.client.consumer.record_batch import RecordBatch
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.operations.leader_epochs import EpochEnd
    from tidelog.plugins.client.steps import Steps

_ARROW_BYTES: Final = 64 * 1024 * 1024
"""Fetched bytes of one table, and of one list of batches."""


class ConsumerCore:
    """A consumer without its driver.

    Attributes:
        positions: the assigned partitions
        membership: that of the group, None without a subscription
        is_closed: nothing can be called any more
        current: the record that an iteration has returned last, None without one
    """

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        new_event: Callable[[], Any],
        lock: AbstractContextManager[Any],
    ) -> None:
        self.settings = settings
        self.positions: dict[TopicPartition, PartitionPosition] = {}
        self.membership: GroupMembership | None = None
        self.is_closed = False
        self.current: ConsumerRecord | None = None
        self._engine = engine
        self._new_event = new_event
        self._lock = lock
        self._prefetcher = PartitionPrefetcher(engine, settings, self.positions, self._changed)
        self._event: Any = None
        self._timer: EngineTimer | None = None
        self._is_pump_due = False
        self._failure: ClientError | None = None
        self._chunk: list[ConsumerRecord] = []
        self._chunk_of: PartitionPosition | None = None
        self._committed_at = engine.clock()
        self._is_committing = False

    # What the user calls.

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that are assigned already keep their positions."""
        wanted = dict.fromkeys(TopicPartition(*each) for each in partitions)
        with self._lock:
            self._check_open()
            if self.membership is not None:
                raise ValueError("this consumer has a subscription: unsubscribe before you assign")
            self._end_chunk()
            for partition in [each for each in self.positions if each not in wanted]:
                del self.positions[partition]
            for partition in wanted:
                if partition not in self.positions:
                    self.positions[partition] = PartitionPosition(partition)
            self.request_pump()

    def subscribe(
        self, topics: Iterable[str], pattern: str | None, listener: RebalanceListener | None
    ) -> None:
        """Share the partitions of topics, and of those whose whole name matches a pattern, with the group.

        Raises:
            NotAssigned: the consumer has no group.
            ValueError: partitions are assigned by hand, or the pattern is no regular expression.
        """
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from error
        group = self.settings.group_id
        if group is None:
            raise NotAssigned("a consumer without group_id shares no partitions: assign them")
        with self._lock:
            self._check_open()
            if self.membership is None:
                if self.positions:
                    raise ValueError("this consumer has partitions that were assigned by hand")
                self.membership = GroupMembership(self._engine, self.settings, group, self._changed)
            self.membership.subscribe(topics, compiled, listener)

    def unsubscribing(self) -> Steps[None]:
        """Return the operation that leaves the group; without a group partitions are given up alone."""
        with self._lock:
            self._end_chunk()
            self.positions.clear()
            membership, self.membership = self.membership, None
            return no_steps() if membership is None else membership.leaving()

    def subscription(self) -> frozenset[str]:
        """Return the topics that the consumer shares with its group."""
        with self._lock:
            return frozenset() if self.membership is None else self.membership.topics

    def next_change(self) -> AssignmentChange | None:
        """Return what has to change about the assignment; each is followed by the next four methods."""
        with self._lock:
            membership = self.membership
            return membership.changes.popleft() if membership is not None and membership.changes else None

    def last_change(self) -> AssignmentChange | None:
        """Return the change that ends a subscription."""
        with self._lock:
            membership = self.membership
            if membership is None or not membership.owned:
                return None
            return AssignmentChange("revoked", frozenset(membership.owned), -1)

    def commit_before(self, change: AssignmentChange) -> Steps[None] | None:
        """Return the operation that commits before partitions are given up, None if there is none."""
        if change.kind not in ("revoked", "prepare") or not self._commits_itself:
            return None
        with self._lock:
            offsets = self._unsaved()
        return self.commit(offsets) if offsets else None

    def begin_change(self, change: AssignmentChange) -> None:
        """Add partitions, whose positions a listener may set."""
        if change.kind == "assigned":
            with self._lock:
                for partition in sorted(change.partitions):
                    self.positions.setdefault(partition, PartitionPosition(partition))

    def call_listener(self, change: AssignmentChange) -> object:
        """Call the listener; return what it returns."""
        membership = self.membership
        listener = None if membership is None else membership.listener
        if listener is None or change.kind == "prepare":
            return None
        if change.kind == "assigned":
            return listener.on_assigned(change.partitions)
        if not change.partitions:
            return None
        return (listener.on_revoked if change.kind == "revoked" else listener.on_lost)(change.partitions)

    def finish_change(self, change: AssignmentChange) -> None:
        """Drop partitions, and let the membership continue."""
        with self._lock:
            if change.kind != "assigned":
                for partition in change.partitions:
                    self.positions.pop(partition, None)
            if self.membership is not None:
                self.membership.finished(change)
            self.request_pump()

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        with self._lock:
            return set(self.positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue a partition at an offset.

        Raises:
            NotAssigned: it is not assigned.
            ValueError: the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"an offset is at least 0, not {offset}")
        with self._lock:
            state = self._state(partition)
            self._end_chunk()
            state.seek(offset)
            self.request_pump()

    def seek_to(self, partitions: Iterable[TopicPartition], reset: str) -> None:
        """Continue partitions, by default all, where a reset policy says; raises `NotAssigned`."""
        with self._lock:
            states = [self._state(each) for each in partitions] or list(self.positions.values())
            self._end_chunk()
            for state in states:
                state.seek_to(reset)
            self.request_pump()

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Return nothing of partitions, or return them again; raises `NotAssigned`."""
        with self._lock:
            self._end_chunk()
            for state in [self._state(each) for each in partitions]:
                state.is_paused = is_paused
            self.request_pump()

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._lock:
            return {partition for partition, state in self.positions.items() if state.is_paused}

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record, None until it is known.

        Raises:
            NotAssigned: it is not assigned.
            ClientError: why it cannot be known.
        """
        with self._lock:
            state = self._state(partition)
            if state.position is None and state.has_error:
                self._raise_error(state)
            return self._position_of(state)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets follow the position, None until that is known; raises `NotAssigned`."""
        with self._lock:
            state = self._state(partition)
            end = state.last_stable_offset if self.settings.is_committed_only else state.high_watermark
            position = self._position_of(state)
            return None if end < 0 or position is None else max(0, end - position)

    def begin_poll(self) -> None:
        """Commit what was returned before if it is time to; a call of `poll` begins with it.

        Raises:
            ClientClosed: the consumer is closed.
            ClientError: what has failed meanwhile.
        """
        with self._lock:
            self._check_open()
            self._end_chunk()
            self._auto_commit()
            membership = self.membership
            if membership is not None:
                membership.polled()
                if membership.failure is not None:
                    failure, membership.failure = membership.failure, None
                    raise failure
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure

    def take_records(self) -> list[ConsumerRecord]:
        """Return records that are there, at most `max_poll_records`, and move the positions.

        Raises:
            ClientError: why a partition cannot be read, if there are no records before that.
        """
        found: list[ConsumerRecord] = []
        most = self.settings.max_poll_records
        while len(found) < most:
            try:
                records = self._read(lambda cursor: cursor.read_records(most - len(found)))
            except ClientError:
                if not found:
                    raise
                break
            if records is None:
                break
            # The list belongs to the cursor, unless nothing is left of its batch.
            found.extend(records)
        return found

    def take_batches(self, most_bytes: int = _ARROW_BYTES) -> list[RecordBatch]:
        """Return batches that are there, of about so many bytes; as `take_records`."""
        found: list[RecordBatch] = []
        size = 0
        while size < most_bytes:
            try:
                batch = self._read(lambda cursor: cursor.read_batch())
            except ClientError:
                if not found:
                    raise
                break
            if batch is None:
                break
            found.append(batch)
            size += len(batch.data)
        return found

    def take_chunk(self) -> list[ConsumerRecord]:
        """Return records for an iteration, whose positions move when it continues.

        What is left of them is returned again if something else is called before they are all used; the list
        is emptied then, which ends the iteration.
        """
        state = self._next_state()
        if state is None:
            return []
        cursor = self._cursor_of(state)
        if cursor is None:
            return []
        with self._lock:
            if state.cursor is not cursor:
                return []
        records = list(cursor.read_records(self.settings.max_poll_records))
        with self._lock:
            if state.cursor is not cursor:
                return []
            if not records:
                self._advance(state, cursor, is_at_end=True)
                return []
            self._chunk, self._chunk_of = records, state
            self.current = None
        return records

    def waiter(self) -> Any:
        """Return an event that is set when there is something to take, or None if there is already."""
        with self._lock:
            if self._chunk or self.is_closed or self._failure is not None or self._has_data():
                return None
            if self.membership is not None and self.membership.needs_poll:
                return None
            if self._event is None:
                self._event = self._new_event()
            return self._event

    def change_event(self) -> Any:
        """Return an event that is set at the next change of a position or a buffer."""
        with self._lock:
            if self._event is None:
                self._event = self._new_event()
            return self._event

    def positions_to_commit(self) -> dict[TopicPartition, GroupOffset]:
        """Return the position of each partition that was read."""
        with self._lock:
            self._mark_chunk()
            return self._unsaved(is_all=True)

    def commit(self, offsets: Mapping[TopicPartition, GroupOffset]) -> Steps[None]:
        """Return the operation that commits offsets.

        Raises:
            NotAssigned: the consumer has no group.
            ClientError: a partition's offset was not committed.
        """
        return self._commit(self.group_metadata(), offsets)

    def group_metadata(self) -> GroupMetadata:
        """Return the group, and with a subscription the member; raises `NotAssigned` without a group."""
        membership = self.membership
        if membership is not None:
            return membership.member
        if self.settings.group_id is None:
            raise NotAssigned("a consumer without group_id commits no offsets")
        return GroupMetadata(self.settings.group_id)

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, GroupOffset],
        on_commit: Callable[[Mapping[TopicPartition, GroupOffset], ClientError | None], object] | None,
    ) -> None:
        """Commit in the background; `on_commit` gets the offsets and the error, None without one."""

        def done(outcome: ClientError | None) -> None:
            if on_commit is not None:
                on_commit(offsets, outcome)

        operation = self.commit(offsets)
        with self._lock:
            self._engine.spawn(operation, done, timeout_s=self.settings.api_timeout_s)

    def closing(self) -> Steps[None]:
        """Return the operation that commits, if that is automatic, and closes the fetch sessions."""
        with self._lock:
            self._mark_chunk()
            offsets = self._unsaved() if self._commits_itself else {}
            commit = self.commit(offsets) if offsets else no_steps()
            leave = no_steps() if self.membership is None else self.membership.leaving()
            self.membership = None
            self.positions.clear()
            self.is_closed = True
            self.wake()
        return self._close(commit, leave)

    # What follows from it.

    def request_pump(self) -> None:
        """Look at what has to be requested once the driver is there."""
        if not self._is_pump_due and not self._engine.is_closed:
            self._is_pump_due = True
            self._engine.soon(self._pump)

    def wake(self) -> None:
        """Have those look again who wait."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    @property
    def _commits_itself(self) -> bool:
        return self.settings.enable_auto_commit and self.settings.group_id is not None

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("this consumer was closed")

    def _state(self, partition: TopicPartition) -> PartitionPosition:
        self._check_open()
        state = self.positions.get(partition)
        if state is None:
            raise NotAssigned(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def _has_data(self) -> bool:
        return any(state.has_data for state in self.positions.values())

    def _position_of(self, state: PartitionPosition) -> int | None:
        if state is self._chunk_of and self.current is not None:
            return self.current.offset + 1
        return state.position

    def _next_state(self) -> PartitionPosition | None:
        """Return a partition with something to take, each in turn."""
        with self._lock:
            state = next((each for each in self.positions.values() if each.has_data), None)
            if state is not None:
                # Behind the others, which come first the next time.
                self.positions[state.partition] = self.positions.pop(state.partition)
            return state

    def _cursor_of(self, state: PartitionPosition) -> FetchedCursor | None:
        """Return the cursor in the data of a partition; raise the error that is there instead of data."""
        with self._lock:
            if state.cursor is None and state.buffer:
                found = state.buffer[0]
                if isinstance(found, ClientError):
                    self._raise_error(state)
                    return None
                state.buffer.popleft()
                state.cursor = FetchedCursor(found, self.settings)
            return state.cursor

    def _read(self, read: Callable[[FetchedCursor], Any]) -> Any:
        """Return what `read` gets of the next cursor that is not at its end; None if there is none."""
        while (state := self._next_state()) is not None:
            cursor = self._cursor_of(state)
            if cursor is None:
                continue
            found = read(cursor)
            with self._lock:
                if state.cursor is not cursor:
                    continue
                self._advance(state, cursor, is_at_end=not found)
            if found:
                return found
        return None

    def _advance(self, state: PartitionPosition, cursor: FetchedCursor, *, is_at_end: bool) -> None:
        state.position = cursor.next_offset
        state.epoch = cursor.epoch if cursor.epoch != NO_EPOCH else state.epoch
        if is_at_end:
            state.cursor = None
            state.buffered_bytes -= len(cursor.fetched.data)
            self.request_pump()

    def _mark_chunk(self) -> None:
        """Move the position to what an iteration has returned."""
        state, current = self._chunk_of, self.current
        if state is None or state.cursor is None or current is None:
            return
        if self._chunk and current is self._chunk[-1]:
            self._advance(state, state.cursor, is_at_end=False)
        else:
            state.position = current.offset + 1

    def _end_chunk(self) -> None:
        """End an iteration; what it has not returned is returned again."""
        state = self._chunk_of
        if state is None:
            return
        self._mark_chunk()
        chunk, self._chunk, self._chunk_of = self._chunk, [], None
        current, self.current = self.current, None
        if state.cursor is not None and chunk and current is not chunk[-1]:
            state.cursor.go_back_to(chunk[0].offset if current is None else current.offset + 1)
        chunk.clear()

    def _raise_error(self, state: PartitionPosition) -> None:
        """Raise the error that is next in a partition, or reset its position."""
        error = state.buffer.popleft()
        if not isinstance(error, ClientError):
            raise AssertionError("the next is an error")
        self.request_pump()
        is_beyond = isinstance(error, ErrorResponse) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if is_beyond or isinstance(error, LogTruncated):
            if self.settings.auto_offset_reset != "none":
                state.seek_to(self.settings.auto_offset_reset)
                return
            if is_beyond:
                error = NoOffset(str(state.partition), f"the log does not have {state.fetch_offset}")
        if isinstance(error, CorruptRecords):
            # It stays there until something seeks past it.
            state.buffer.appendleft(error)
        raise error

    def _changed(self) -> None:
        self.request_pump()
        self.wake()

    def _pump(self) -> None:
        self._is_pump_due = False
        if self.is_closed or self._engine.is_closed:
            return
        self._look_up()
        due = self._prefetcher.pump()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._engine.call_at(due, self._pump)

    def _look_up(self) -> None:
        """Look up positions that are unknown, and validate those whose leader is another one."""
        now = self._engine.clock()
        session = self._engine.session
        unset: dict[TopicPartition, tuple[PartitionPosition, int]] = {}
        for partition, state in self.positions.items():
            if state.is_busy or state.retry_at > now or state.has_error:
                continue
            if state.position is None:
                state.is_busy = True
                unset[partition] = (state, state.version)
            elif session.cluster.leader(partition) is not None and self._prefetcher.needs_check(state):
                self._check(state, session.cluster.leader_epoch(partition))
        if unset:
            resets = {partition: state.reset for partition, (state, _) in unset.items()}
            operation = starting_offsets(session, self.settings, resets)
            timeout_s = self.settings.api_timeout_s
            self._engine.spawn(operation, lambda found: self._looked_up(unset, found), timeout_s=timeout_s)

    def _looked_up(
        self,
        asked: Mapping[TopicPartition, tuple[PartitionPosition, int]],
        outcome: Outcomes[TopicPartition, GroupOffset] | ClientError,
    ) -> None:
        for partition, (state, version) in asked.items():
            if state.version != version or self.positions.get(partition) is not state:
                continue
            state.is_busy = False
            found = outcome if isinstance(outcome, ClientError) else outcome[partition]
            if isinstance(found, ClientError):
                self._prefetcher.failed(state, found)
            else:
                state.failures = 0
                is_committed = state.reset is None and self.settings.group_id is not None
                state.seek(found.offset, found.leader_epoch)
                state.committed = found.offset if is_committed else None
        self._changed()

    def _check(self, state: PartitionPosition, current_epoch: int) -> None:
        """Validate the position at a new leader, unless there is nothing to compare."""
        if state.fetch_epoch == NO_EPOCH or current_epoch == NO_EPOCH:
            state.checked_epoch = current_epoch
            return
        state.is_busy = True
        version = state.version
        operation = end_of_epoch(self._engine.session, state.partition, state.fetch_epoch, current_epoch)
        self._engine.spawn(operation, lambda found: self._checked(state, version, current_epoch, found))

    def _checked(
        self, state: PartitionPosition, version: int, current_epoch: int, outcome: EpochEnd | ClientError
    ) -> None:
        if state.version != version or self.positions.get(state.partition) is not state:
            return
        state.is_busy = False
        if isinstance(outcome, UnsupportedByBroker):
            state.checked_epoch = current_epoch
        elif isinstance(outcome, ClientError):
            self._prefetcher.failed(state, outcome)
        else:
            state.failures = 0
            state.checked_epoch = current_epoch
            if outcome.end_offset < state.fetch_offset or outcome.epoch < 0:
                self._truncated(state, outcome)
        self._changed()

    def _truncated(self, state: PartitionPosition, end: EpochEnd) -> None:
        """Continue where the log of a new leader ends that lacks what was fetched."""
        position = state.position or 0
        if end.end_offset >= position:
            # What was returned is still there.
            state.seek(position, end.epoch)
        elif self.settings.auto_offset_reset != "none" and end.end_offset >= 0:
            state.seek(end.end_offset, end.epoch)
        else:
            state.drop_buffer()
            state.buffer.append(LogTruncated(str(state.partition), position, end.end_offset))

    def _unsaved(self, *, is_all: bool = False) -> dict[TopicPartition, GroupOffset]:
        """Return the positions that are not committed, or all."""
        return {
            partition: GroupOffset(state.position, "", state.epoch)
            for partition, state in self.positions.items()
            if state.position is not None and (is_all or state.position != state.committed)
        }

    def _auto_commit(self) -> None:
        now = self._engine.clock()
        due = self._committed_at + self.settings.auto_commit_interval_ms / 1000
        if not self._commits_itself or self._is_committing or now < due:
            return
        self._committed_at = now
        offsets = self._unsaved()
        if offsets:
            self._is_committing = True
            self._engine.spawn(
                self.commit(offsets), self._auto_committed, timeout_s=self.settings.api_timeout_s
            )

    def _auto_committed(self, outcome: ClientError | None) -> None:
        self._is_committing = False
        if outcome is not None and not outcome.retriable:
            self._failure = outcome
            self.wake()

    def _close(self, commit: Steps[None], leave: Steps[None]) -> Steps[None]:
        # Without it the group continues where it was committed before, as after a crash.
        with suppress(ClientError):
            yield from commit
        yield from leave
        yield from self._prefetcher.close_sessions()

    def _commit(self, group: GroupMetadata, offsets: Mapping[TopicPartition, GroupOffset]) -> Steps[None]:
        outcomes = yield from commit_offsets(self._engine.session, group, offsets)
        or_raise(outcomes)
        for partition, offset in offsets.items():
            state = self.positions.get(partition)
            if state is not None:
                state.committed = offset.offset
