"""A consumer group in the registry: its state, and the one way in which that changes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.pace import run_in_steps, run_to_end
from tidelog.kernel.seams.coordination.groups import (
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    ListedGroup,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.assigning import is_large
from tidelog.plugins.coordinator.consumer_groups.background_assignment import BackgroundAssignment
from tidelog.plugins.coordinator.consumer_groups.draft import Decision, Draft
from tidelog.plugins.coordinator.consumer_groups.machine import classic_requests, departures
from tidelog.plugins.coordinator.consumer_groups.machine.consumer_requests import answer_to, changes_nothing
from tidelog.plugins.coordinator.consumer_groups.member import ConsumerGroupMember
from tidelog.plugins.coordinator.consumer_groups.member_records import CurrentChange, MemberChange
from tidelog.plugins.coordinator.consumer_groups.records import removal_of
from tidelog.plugins.coordinator.consumer_groups.timers import Overdue, Timer, Timers
from tidelog.plugins.coordinator.groups.group import ClassicMembership, ExpiryRule
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.runtime import Durable, wait_for
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
    from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
    from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
    from tidelog.plugins.coordinator.consumer_groups.group_records import ConsumerGroupChange
    from tidelog.plugins.coordinator.consumer_groups.settings import Settings, Shared

T = TypeVar("T")

_log = logging.getLogger(__name__)

REMOVED_AT_ONCE = 300
"""Most overdue members that are removed with one batch: the tombstones of all may not fit into one."""
RETRY_MS = 1_000
"""Delay before the removal of a member is retried after the log refused its records."""


class RegisteredConsumerGroup(ClassicMembership):
    """A `Group` of the consumer protocol; `state` changes when the records of its changes are in the log."""

    def __init__(self, state: ConsumerGroup, partition: int, shared: Shared) -> None:
        self.group_id = state.group_id
        self.partition = partition
        self.state = state
        self._shared = shared
        self._timers = Timers(shared.runtime.deadlines, state.group_id, self._expired)
        self._assignment = BackgroundAssignment(self.group_id, shared)
        self._turn = trio.Semaphore(1)
        self._removing = False
        self._settings = shared.settings.of_broker
        self._settings_version: int | None = None

    def _current_settings(self) -> Settings:
        """Return the group's settings, looked up again only after a configuration has changed."""
        settings = self._shared.settings
        version = settings.configs.version
        if version != self._settings_version:
            self._settings, self._settings_version = settings.of(self.group_id), version
        return self._settings

    def _restart_session(self, member: ConsumerGroupMember) -> None:
        self._timers.restart_session(member, self._current_settings().session_timeout_ms)

    def unchanged(self, request: ConsumerGroupHeartbeat) -> HeartbeatAnswer | None:
        """Answer a heartbeat that changes nothing but the member's session; None for any other."""
        shared = self._shared
        member = self.state.members.get(request.member_id)
        if member is None or not changes_nothing(self.state, member, request, shared.topics):
            return None
        settings = self._current_settings()
        self._timers.restart_session(member, settings.session_timeout_ms)
        return answer_to(request, member, member.current, settings.heartbeat_interval_ms)

    async def heartbeat_decided(
        self, decide: Callable[[ConsumerGroup], Generator[None, None, Decision[HeartbeatAnswer]]]
    ) -> HeartbeatAnswer:
        """Decide about a heartbeat and carry that out; answered when it may be acknowledged.

        Raises:
            BrokerError: as `change`.
        """
        answer, durable = await self.change(decide)
        member = self.state.members.get(answer.member_id)
        if member is not None:
            self._restart_session(member)
        await wait_for(durable)
        return answer

    async def change(
        self, decide: Callable[[ConsumerGroup], Generator[None, None, Decision[T]]]
    ) -> tuple[T, Durable | None]:
        """Decide about a change in steps and carry it out; return the answer, and what that waits for.

        Other requests are served between the steps. Those that change this group wait, so that the state that
        is decided about stays as it is; only the group as a whole may be removed meanwhile.

        Raises:
            BrokerError: what `decide` raises, or the log refused; everything is as it was.
            CoordinatorLoadInProgress: the group was removed or replaced meanwhile.
        """
        async with self._exclusively():
            answer, draft = await run_in_steps(decide(self._decided_about()))
            if draft is None:
                return answer, None
            records = await run_in_steps(self.records(draft))
            self._decided_about()
            return answer, self.carry_out(draft, records)

    def records(self, draft: Draft) -> Generator[None, None, list[StateRecord]]:
        """Return the records of what a draft changed, in steps."""
        records = yield from draft.to_records()
        if draft.becomes_classic is not None:
            records += yield from self._shared.classic.records(draft.becomes_classic)
        return records

    def carry_out(self, draft: Draft, records: Sequence[StateRecord]) -> Durable | None:
        """Append the records of what a draft changed in one batch, and apply it.

        Raises:
            BrokerError: the log refused; everything is as it was.
        """
        apply = partial(self._apply, draft)
        if not records:
            apply()
            return None
        return self._shared.runtime.append(self.partition, records, apply)

    def _apply(self, draft: Draft) -> None:
        if draft.group.removed:
            # This stops the timers of the members, which the group has only as long as nothing is merged.
            self._shared.registry.remove(self, UnknownMemberId(f"group {self.group_id!r} was removed"))
        draft.merge()
        self._update_timers(draft.changes)
        if draft.becomes_classic is not None:
            self._shared.classic.adopt(draft.becomes_classic)

    @asynccontextmanager
    async def _exclusively(self) -> AsyncGenerator[None]:
        """Wait until no other change of the group is being decided, without a checkpoint if none is."""
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _decided_about(self) -> ConsumerGroup:
        state = self._present()
        if state is None:
            # Clients try again, and find what is there now.
            raise CoordinatorLoadInProgress(f"group {self.group_id!r} was removed meanwhile")
        return state

    def _present(self) -> ConsumerGroup | None:
        """Return the state of the group, None if another group has replaced it or it is gone."""
        return self.state if self._shared.registry.find(self.group_id) is self else None

    async def _write(self, decide: Callable[[ConsumerGroup], Generator[None, None, Draft]]) -> None:
        _, durable = await self.change(lambda state: _nothing_besides(decide(state)))
        await wait_for(durable)

    @property
    def is_being_assigned(self) -> bool:
        """Whether an assignment is computed in the background."""
        return self._assignment.is_running

    def assign_if_due(self) -> trio.Event | None:
        """Compute an assignment in the background if one is due; see `BackgroundAssignment.start_if_due`."""
        return self._assignment.start_if_due(self._present, self._write)

    def classic_join(self, request: JoinRequest) -> Awaitable[Joined]:
        """Join as a member of the classic protocol; an empty group becomes a classic one for that."""
        return self._join(request)

    async def _join(self, request: JoinRequest) -> Joined:
        if await self._make_classic(request):
            # That waited for the disk: it may be a consumer group again by now, or its log be gone.
            joined = self._shared.classic.for_join(request).classic_join(request)
            return joined if isinstance(joined, Joined) else await joined
        context = self._shared.context(self.group_id)
        answer, durable = await self.change(
            lambda state: classic_requests.decide_join(state, request, context)
        )
        member = self.state.members[answer.member_id]
        self._timers.stop(member.member_id, Timer.JOIN)
        self._restart_session(member)
        self._timers.start(member, Timer.SYNC, request.rebalance_timeout_ms)
        # Before the wait, in which the request ends if its client leaves.
        self.assign_if_due()
        await wait_for(durable)
        return answer

    async def _make_classic(self, request: JoinRequest) -> bool:
        """Return whether the group is one of the classic protocol now, or none: the join goes there.

        Raises:
            BrokerError: the log refused.
        """
        context = self._shared.context(self.group_id)
        becomes_classic, durable = await self.change(
            lambda state: classic_requests.convert_for_join(state, request, context)
        )
        await wait_for(durable)
        return becomes_classic

    def classic_sync(self, request: SyncRequest) -> Synced:
        """Return the partitions of a member that speaks the classic protocol."""
        member, answer = classic_requests.answer_sync(self.state, request, self._shared.topics)
        if isinstance(answer, RebalanceInProgress):
            raise self._expect_rejoin(member, answer)
        self._timers.stop(member.member_id, Timer.SYNC)
        self._restart_session(member)
        return answer

    def classic_heartbeat(self, member_id: str, generation: int, group_instance_id: str | None) -> None:
        """Extend the session of a member that speaks the classic protocol."""
        member, error = classic_requests.answer_heartbeat(
            self.state, member_id, generation, group_instance_id
        )
        self._restart_session(member)
        if self.state.epoch > self.state.assignment_epoch:
            # A member may have left a large group that has no member of the consumer protocol, with whose
            # heartbeats an assignment would begin.
            self.assign_if_due()
        if error is not None:
            raise self._expect_rejoin(member, error)

    def _expect_rejoin(self, member: ConsumerGroupMember, error: RebalanceInProgress) -> RebalanceInProgress:
        """Give a member that gets this error its rebalance timeout to rejoin; return the error."""
        self._timers.start_unless_running(member, Timer.JOIN, member.metadata.rebalance_timeout_ms)
        return error

    async def classic_leave(self, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Remove members, which may speak either protocol."""
        context = self._shared.context(self.group_id)
        outcomes, durable = await self.change(lambda state: departures.leave_group(state, members, context))
        await wait_for(durable)
        return outcomes

    def listed(self) -> ListedGroup:
        """Return the group's entry of the list of groups."""
        return ListedGroup(self.group_id, CONSUMER_PROTOCOL_TYPE, self.state.state, "consumer")

    def check_commit(self, commit: OffsetCommit) -> None:
        """Check that the client may commit offsets."""
        checks.check_commit(self.state, commit, self._shared.topics)

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Check that the client may fetch offsets."""
        checks.check_fetch(self.state, fetch)

    def check_delete_offsets(self) -> None:
        """Accept: it is always known what members subscribe to."""

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic."""
        return self.state.subscribes(topic)

    def expiry(self) -> ExpiryRule:
        """Let each offset expire by its own age, as long as no member subscribes to its topic."""
        return ExpiryRule()

    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.state.members

    def is_idle(self) -> bool:
        """Return whether the group has no members."""
        return not self.state.members

    def tombstones(self) -> Sequence[StateRecord]:
        """Return the tombstones of all records of the group."""
        return [change.to_record() for change in removal_of(self.state)]

    def resume(self) -> None:
        """Start the timers of all members."""
        for member in self.state.members.values():
            self._restart_session(member)
            self._timers.follow_revocation(member)

    def close(self, reason: BrokerError) -> None:
        """Stop the timers of all members; no request waits here."""
        for member_id in self.state.members:
            self._timers.stop_all(member_id)

    def _update_timers(self, changes: Sequence[ConsumerGroupChange]) -> None:
        members = self.state.members
        for change in changes:
            if isinstance(change, MemberChange):
                if change.metadata is None:
                    self._timers.stop_all(change.member_id)
                elif change.member_id in members:
                    self._timers.follow_protocol(members[change.member_id])
            elif isinstance(change, CurrentChange) and change.current and change.member_id in members:
                self._timers.follow_revocation(members[change.member_id])

    def _expired(self) -> None:
        """Remove the members that are overdue: in one step from a small group, else in a task for all."""
        if self._removing:
            return
        if self._turn.value and not is_large(self.state, self._shared.topics):
            overdue, draft = run_to_end(self._without(self._timers.overdue(), self.state))
            with self._retrying(overdue):
                if draft is not None:
                    self.carry_out(draft, run_to_end(self.records(draft)))
        else:
            self._removing = True
            self._shared.tasks.once(f"removal of members of group {self.group_id}", self._remove_overdue)

    async def _remove_overdue(self) -> None:
        self._removing = False
        overdue = self._timers.overdue()
        for begin in range(0, len(overdue), REMOVED_AT_ONCE):
            some = overdue[begin : begin + REMOVED_AT_ONCE]
            with self._retrying(some):
                await self.change(partial(self._without, some))

    def _without(
        self, overdue: Sequence[Overdue], state: ConsumerGroup
    ) -> Generator[None, None, Decision[list[Overdue]]]:
        """Return a draft without members that are still overdue, and which those are."""
        context = self._shared.context(self.group_id)
        decision = yield from departures.expire_members(state, overdue, self._timers.is_overdue, context)
        for member_id, timer in decision.answer:
            _log.info("group %s: member %s is removed: %s", self.group_id, member_id, timer.value)
        return decision

    @contextmanager
    def _retrying(self, overdue: Sequence[Overdue]) -> Generator[None]:
        """Start the timers of members again if they cannot be removed now."""
        try:
            yield
        except BrokerError as error:
            _log.warning("group %s: %d members cannot be removed yet: %s", self.group_id, len(overdue), error)
            for each in overdue:
                if member := self.state.members.get(each.member_id):
                    self._timers.start(member, each.timer, RETRY_MS)


def _nothing_besides(steps: Generator[None, None, Draft]) -> Generator[None, None, Decision[None]]:
    return Decision(None, (yield from steps))
