"""A classic group in the registry: its state machine, its record in the log, and its timer."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from tidelog.kernel.errors import (
    BatchTooLarge,
    BrokerError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    MessageTooLarge,
    NonEmptyGroup,
    NotCoordinator,
    RebalanceInProgress,
    StorageError,
    UnknownMemberId,
)
from tidelog.kernel.pace import run_in_steps
from tidelog.kernel.seams.coordination.groups import (
    DescribedGroup,
    DescribedMember,
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    ListedGroup,
    Synced,
    SyncRequest,
)
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.classic_groups.group import ClassicDecision, ClassicGroup, GenerationWrite
from tidelog.plugins.coordinator.classic_groups.machine import decide_join, decide_leave, decide_sync
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember, GroupAnswer
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange, tombstone_of
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.groups.group import ClassicMembership, ExpiryRule, MadeOnDemand
from tidelog.plugins.coordinator.groups.replies import ReplyQueue, WaitingReply
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE, read_topics
from tidelog.plugins.schema.errors import CodecError

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.groups.registry import GroupRegistry
    from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime, Durable

_log = logging.getLogger(__name__)

LOADING_RETRY_MS = 1_000
"""Delay of a timer that fired before the group's partition was active."""
MAX_REASON_CHARACTERS = 255
"""Characters of a client's reason to join or leave that are logged; clients send no more (KIP-800)."""


@attrs.frozen
class ClassicContext:
    """Context shared by all classic groups; `has_offsets` returns whether a group has committed any."""

    runtime: CoordinatorRuntime
    registry: GroupRegistry
    replies: ReplyQueue
    settings: GroupSettings
    has_offsets: Callable[[str], bool]


class _Subscribed(NamedTuple):
    """Subscribed topics of a generation; `topics` is None if a subscription is malformed."""

    generation: int
    protocol_name: str
    topics: frozenset[str] | None


class RegisteredClassicGroup(ClassicMembership):
    """A `Group` of the classic protocol.

    Attributes:
        group: the state machine
        state_timestamp_ms: since when (by the wall clock) the group is in the state that its record has, or
            has no members although the log refused that record; None if that is not known
    """

    def __init__(
        self,
        group: ClassicGroup,
        partition: int,
        context: ClassicContext,
        state_timestamp_ms: int | None = None,
    ) -> None:
        self.group_id = group.group_id
        self.partition = partition
        self.group = group
        self.state_timestamp_ms = state_timestamp_ms
        self._context = context
        self._now_ms = context.runtime.deadlines.now_ms
        self._subscribed: _Subscribed | None = None

    def classic_join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """Join; the answer comes when the generation begins."""
        _log.debug("%s joins group %r: %s", _name(request), self.group_id, _reason(request.reason))
        reply = WaitingReply[Joined](self._context.replies)
        try:
            self._carry_out(decide_join(self.group, request, reply, self._now_ms()))
            return reply.nowait() or reply.wait()
        finally:
            self._update_timer()

    def classic_sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """Return the member's assignment, once the leader has sent it."""
        reply = WaitingReply[Synced](self._context.replies)
        write, answers = decide_sync(self.group, request, reply, self._now_ms())
        _hand_out(answers)
        if write is not None:
            return self._write_assignment(write, reply)
        answer = reply.nowait()
        self._update_timer()
        return answer or reply.wait()

    async def _write_assignment(self, write: GenerationWrite, reply: WaitingReply[Synced]) -> Synced:
        """Write the leader's assignment in steps, unless another rebalance begins meanwhile."""
        group, now_ms = self.group, self._context.runtime.clock()
        generation = group.generation
        # The others wait for this without a deadline once all have sent SyncGroup, also if the leader leaves.
        with trio.CancelScope(shield=True):
            change = await run_in_steps(GenerationChange.of_in_steps(group, now_ms, write.assignments))
            record = await run_in_steps(change.to_record_in_steps())
            if group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation:
                self._append(write, record, now_ms)
                self._update_timer()
        return await reply.wait()

    def classic_heartbeat(self, member_id: str, generation: int, group_instance_id: str | None) -> None:
        """Extend a member's session."""
        group = self.group
        timer_ms = group.timer_ms
        try:
            group.heartbeat_received(member_id, generation, group_instance_id, self._now_ms())
        finally:
            if group.timer_ms < timer_ms:
                self._update_timer()

    async def classic_leave(self, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Remove members; answered when that may be acknowledged."""
        if _log.isEnabledFor(logging.DEBUG):
            for member in members:
                who = member.member_id or member.group_instance_id
                _log.debug("%s leaves group %r: %s", who, self.group_id, _reason(member.reason))
        outcomes, decision = decide_leave(self.group, members, self._now_ms())
        durable = self._carry_out(decision)
        self._update_timer()
        if durable is not None:
            await durable()
        return outcomes

    def describe(self) -> DescribedGroup:
        """Return the description of the group; metadata of members is only meaningful in a stable group."""
        group = self.group
        stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group.group_id,
            group.state.value,
            group.protocol_type or "",
            group.protocol_name or "" if stable else "",
            # Members are made one by one; they may have begun another generation by then.
            MadeOnDemand(
                group.members.values(),
                lambda member: _described(member, group.metadata_of(member) if stable else b""),
            ),
        )

    def listed(self) -> ListedGroup:
        """Return the group's entry of the list of groups."""
        group = self.group
        return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, "classic")

    def check_commit(self, commit: OffsetCommit) -> None:
        """Check that the client may commit offsets."""
        group = self.group
        group.check_alive()
        if commit.generation < 0 and self.is_empty():
            return
        if commit.generation < 0 and not commit.member_id and commit.group_instance_id is None:
            # Clients older than KIP-447 do not send their member id when they commit in a transaction.
            if commit.is_transactional:
                return
            raise UnknownMemberId(f"group {group.group_id!r} has members; others cannot commit for it")
        group.check_member(commit.member_id, commit.group_instance_id, commit.generation)
        if group.state is GroupState.COMPLETING_REBALANCE and not commit.is_transactional:
            raise RebalanceInProgress(f"group {group.group_id!r} is beginning a generation")

    def extend_session_of_commit(self, commit: OffsetCommit) -> None:
        """Extend the session of the member that commits; other clients have none."""
        group = self.group
        member = group.members.get(commit.member_id)
        if member is None:
            return
        timer_ms = group.timer_ms
        group.extend_session(member, self._now_ms())
        if group.timer_ms < timer_ms:
            self._update_timer()

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Accept any client: there is no check for the offsets of classic groups."""

    def check_delete_offsets(self) -> None:
        """Check that offsets may be deleted: the subscriptions of members of other types are unknown."""
        group = self.group
        if group.state is GroupState.DEAD:
            raise GroupIdNotFound(f"group {group.group_id!r} has just been removed")
        if not self.is_empty() and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup(f"group {group.group_id!r} has members")

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic; one with a malformed subscription might."""
        if self.group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        topics = self._subscribed_topics()
        return topics is None or topic in topics

    def expiry(self) -> ExpiryRule | None:
        """Return how the group's offsets expire now (KIP-211), None if they do not."""
        group = self.group
        if group.protocol_type is None:
            return ExpiryRule()
        if self.is_empty():
            return ExpiryRule(self.state_timestamp_ms)
        if group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return None if self._subscribed_topics() is None else ExpiryRule()
        return None

    def is_empty(self) -> bool:
        """Return whether the group has no members; some may be about to join."""
        return self.group.state is GroupState.EMPTY

    def is_idle(self) -> bool:
        """Return whether the group has no members, and none is about to join."""
        return self.is_empty() and not self.group.members.pending

    def tombstones(self) -> Sequence[StateRecord]:
        """Return the tombstone of the group.

        There is one also for a group without a record: to Kafka the records of its offsets create a group,
        which their own tombstones do not remove.
        """
        return [tombstone_of(self.group_id)]

    def resume(self, *, rebalance: bool = False) -> None:
        """Start the sessions of all members.

        A group that is in the log stays even without members and offsets, until it expires: only then is
        its tombstone written.
        """
        self._carry_out(self.group.start_sessions(self._now_ms(), rebalance=rebalance))
        self._schedule()

    def close(self, reason: BrokerError) -> None:
        """Cancel the timer, and answer every request that waits with `reason`."""
        _hand_out(self.group.end(reason).answers)
        self._context.runtime.deadlines.cancel(self._timer_key)

    def _carry_out(self, decision: ClassicDecision) -> Durable | None:
        """Write what the state machine decided and hand out its answers.

        The result is to be awaited before any other response.
        """
        write, durable = decision.write, None
        if write is not None:
            now_ms = self._context.runtime.clock()
            change = GenerationChange.of(self.group, now_ms, write.assignments, write.replaced)
            durable = self._append(write, change.to_record(), now_ms)
        _hand_out(decision.answers)
        return durable

    def _append(self, write: GenerationWrite, record: StateRecord, now_ms: int) -> Durable | None:
        """Append the record of a generation; the outcome is the next event of the state machine."""
        try:
            durable = self._context.runtime.append(
                self.partition, [record], partial(self._appended, write, now_ms)
            )
        except BrokerError as error:
            _log.warning("group %.100r could not be written: %s", self.group_id, error)
            write.refused(self.group, _error_for_members(error), self._now_ms())
            if self.is_empty():
                # Its offsets expire by that, and the generation in the log may be as old as they may get.
                self.state_timestamp_ms = now_ms
            _hand_out(self.group.decided().answers)
            return None
        _log.debug("group %r: generation %d", self.group_id, self.group.generation)
        # A member must not act on a generation that a crash may still undo.
        _hand_out(self.group.decided().answers, durable)
        return durable

    def _appended(self, write: GenerationWrite, timestamp_ms: int) -> None:
        self.state_timestamp_ms = timestamp_ms
        write.appended(self.group, self._now_ms())

    def _update_timer(self) -> None:
        """Schedule the timer; remove a group that never had a generation and now has nothing at all."""
        self._schedule()
        if (
            self.group.timer_ms == math.inf
            and not self.group.generation
            and self.is_idle()
            and not self._context.has_offsets(self.group_id)
        ):
            self._context.registry.remove(self, UnknownMemberId(f"there is no group {self.group_id!r}"))

    def _schedule(self) -> None:
        timer_ms = self.group.timer_ms
        if timer_ms != math.inf:
            self._context.runtime.deadlines.schedule_by(self._timer_key, int(timer_ms), self._fire)

    @property
    def _timer_key(self) -> tuple[str, str]:
        return "classic group", self.group_id

    def _fire(self) -> None:
        """Handle every deadline of the group that has passed."""
        context = self._context
        if context.registry.closed or context.registry.find(self.group_id) is not self:
            return
        try:
            context.runtime.log.check_active(self.partition)
        except CoordinatorLoadInProgress:
            # No heartbeat can be received yet, and nothing be written.
            at_ms = self._now_ms() + LOADING_RETRY_MS
            context.runtime.deadlines.schedule(self._timer_key, at_ms, self._fire)
            return
        self._carry_out(self.group.handle_deadlines(self._now_ms()))
        self._update_timer()

    def _subscribed_topics(self) -> frozenset[str] | None:
        """Return what the members subscribe to, None if that is unknown.

        As in Kafka it is computed once a generation: a request may name many topics.
        """
        group, known = self.group, self._subscribed
        if not group.members:
            return frozenset()
        if group.protocol_name is None:
            return None
        if known is None or known[:2] != (group.generation, group.protocol_name):
            known = _Subscribed(group.generation, group.protocol_name, _topics_of(group))
            self._subscribed = known
        return known.topics


def _hand_out(answers: Sequence[GroupAnswer], durable: Durable | None = None) -> None:
    for reply, outcome in answers:
        reply.set(outcome, durable)


def _topics_of(group: ClassicGroup) -> frozenset[str] | None:
    try:
        return frozenset(
            topic for member in group.members.values() for topic in read_topics(group.metadata_of(member))
        )
    except CodecError:
        return None


def _described(member: ClassicGroupMember, metadata: bytes) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        metadata,
        member.assignment,
    )


def _error_for_members(error: BrokerError) -> BrokerError:
    """Return the error that members get for a failed append, as in Kafka.

    It is either one that has them find the coordinator again, or one that is not retriable.
    """
    if isinstance(error, StorageError):
        return NotCoordinator(str(error))
    if isinstance(error, MessageTooLarge | BatchTooLarge):
        return BrokerError(f"the group does not fit into a record: {error}")
    return error


def _name(request: JoinRequest) -> str:
    return request.member_id or request.group_instance_id or f"a new member of client {request.client_id!r}"


def _reason(given: str | None) -> str:
    return given[:MAX_REASON_CHARACTERS] if given else "no reason given"
