"""Requests of members of a classic group: JoinGroup, as a table over its states, SyncGroup and LeaveGroup.

Sources: KIP-345 (static members, leaving in batches and by instance id), KIP-394 (ids for new members),
KIP-559 (protocol type and name), KIP-814.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from tidelog.kernel.errors import (
    BrokerError,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import (
    NO_MEMBER_ID,
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.classic_groups.group import ClassicDecision, ClassicGroup, GenerationWrite
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember, by_name
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.groups.replies import Reply

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for its first generation. It sends no heartbeats, and a client that gives up
would otherwise leave a member behind at each attempt."""
MAX_PENDING: Final = 100_000
"""Most member ids of a group that were assigned to members which have not joined yet."""


@attrs.frozen
class _Join:
    group: ClassicGroup
    request: JoinRequest
    reply: Reply[Joined]
    now_ms: int
    protocols: Mapping[str, bytes]


def decide_join(
    group: ClassicGroup, request: JoinRequest, reply: Reply[Joined], now_ms: int
) -> ClassicDecision:
    """Add a member, or let one rejoin. `reply` gets an error of `GroupService.join`, or has to wait.

    What waits is answered when the generation begins.
    """
    write: GenerationWrite | None = None
    try:
        write = _join(group, request, reply, now_ms)
    except BrokerError as error:
        # Without its traceback, which has this frame and with it the reply that keeps the error.
        group.members.answer(reply, error.with_traceback(None))
    return group.decided(write)


def _join(
    group: ClassicGroup, request: JoinRequest, reply: Reply[Joined], now_ms: int
) -> GenerationWrite | None:
    group.check_alive()
    if not _accepts(group, request.member_id):
        return _reject(group, request.member_id, reply, now_ms)
    asked = _Join(group, request, reply, now_ms, by_name(request.protocols))
    if not group.supports(request.protocol_type, asked.protocols):
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} has no protocol in common with this member, or is not of type "
            f"{request.protocol_type!r}"
        )
    if request.member_id == NO_MEMBER_ID:
        return _join_new(asked)
    if request.member_id in group.members.pending and request.group_instance_id is None:
        return _add(asked, request.member_id)
    member = group.members.check(request.member_id, request.group_instance_id)
    return _REJOIN[group.state](asked, member)


def _accepts(group: ClassicGroup, member_id: str) -> bool:
    """Return whether the group may have this member; in a rebalance only members that joined count."""
    max_size = group.settings.max_size
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        waits = member is not None and member.awaiting_join is not None
        return waits or group.members.awaiting_joins < max_size
    return group.state is GroupState.EMPTY or member is not None or len(group.members) < max_size


def _reject(group: ClassicGroup, member_id: str, reply: Reply[Joined], now_ms: int) -> GenerationWrite | None:
    """Remove the member, if it is one; the others may have waited for it alone."""
    max_size = group.settings.max_size
    error = GroupMaxSizeReached(f"group {group.group_id!r} may have {max_size} members")
    group.members.answer(reply, error)
    group.members.pending.pop(member_id, None)
    member = group.members.get(member_id)
    if member is None:
        # It may have been a new one with an id that it was given, and the only one that others wait for.
        return group.complete_if_possible(now_ms)
    group.remove(member)
    return group.complete_if_all_joined(now_ms)


def _join_new(asked: _Join) -> GenerationWrite | None:
    group, request = asked.group, asked.request
    instance = request.group_instance_id
    if instance is not None:
        member_id = group.settings.new_member_id(instance)
        replaced = group.members.by_instance.get(instance)
        if replaced is not None:
            return _replace(asked, group.members[replaced], member_id)
        return _add(asked, member_id)
    member_id = group.settings.new_member_id(request.client_id)
    if not request.knows_member_id_required:
        return _add(asked, member_id)
    if len(group.members.pending) >= MAX_PENDING:
        raise GroupMaxSizeReached(f"group {group.group_id!r} waits for {MAX_PENDING} new members already")
    group.expect(member_id, asked.now_ms + request.session_timeout_ms)
    raise MemberIdRequired(member_id)


def _add(asked: _Join, member_id: str) -> GenerationWrite | None:
    group, request = asked.group, asked.request
    member = ClassicGroupMember(
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        asked.protocols,
        is_new=True,
        awaiting_join=asked.reply,
    )
    group.add(member, request.protocol_type)
    group.await_first_generation(member, asked.now_ms + NEW_MEMBER_TIMEOUT_MS)
    return group.prepare_or_complete(asked.now_ms)


def _update(asked: _Join, member: ClassicGroupMember) -> None:
    """Update a member that rejoins; a request of its that still waits has lost its connection."""
    members, request = asked.group.members, asked.request
    members.answer_join(member, RebalanceInProgress(f"member {member.member_id!r} joins once more"))
    members.set_protocols(member, asked.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    members.await_join(member, asked.reply)


def _rejoin(asked: _Join, member: ClassicGroupMember) -> GenerationWrite | None:
    _update(asked, member)
    return asked.group.prepare_or_complete(asked.now_ms)


def _rejoin_if_changed(asked: _Join, member: ClassicGroupMember) -> GenerationWrite | None:
    """Repeat the last answer to a member whose protocols are the same: it has missed it."""
    if list(member.protocols.items()) != list(asked.protocols.items()):
        return _rejoin(asked, member)
    asked.group.members.answer(asked.reply, asked.group.joined(member))
    return None


def _rejoin_stable(asked: _Join, member: ClassicGroupMember) -> GenerationWrite | None:
    """Let a leader begin a rebalance with the same protocols: what it assigns has changed."""
    if member.member_id == asked.group.members.leader:
        return _rejoin(asked, member)
    return _rejoin_if_changed(asked, member)


def _refuse_rejoin(asked: _Join, member: ClassicGroupMember) -> GenerationWrite | None:
    raise UnknownMemberId(f"group {asked.group.group_id!r} has no members")


_REJOIN: Final[Mapping[GroupState, Callable[[_Join, ClassicGroupMember], GenerationWrite | None]]] = {
    GroupState.EMPTY: _refuse_rejoin,
    GroupState.PREPARING_REBALANCE: _rejoin,
    GroupState.COMPLETING_REBALANCE: _rejoin_if_changed,
    GroupState.STABLE: _rejoin_stable,
}


def _replace(asked: _Join, member: ClassicGroupMember, member_id: str) -> GenerationWrite | None:
    """Replace a static member whose instance is another process now; the old one is fenced.

    Only a generation that has its assignment continues: the leader of one that has none yet does not know
    the new member id.
    """
    group, request = asked.group, asked.request
    if group.state is GroupState.STABLE:
        new = attrs.evolve(
            member,
            member_id=member_id,
            protocols=asked.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )
        replaced = {member.member_id: new}
        if group.members.select_protocol_with(replaced) == group.protocol_name:
            return StaticRejoin(replaced=replaced, asked=asked, member=member)
    _fence(asked, member, member_id)
    return group.prepare_or_complete(asked.now_ms)


def _fence(asked: _Join, member: ClassicGroupMember, member_id: str) -> None:
    """Make the new process of an instance the member, which waits for an answer to its JoinGroup."""
    group = asked.group
    fenced = FencedInstanceId(f"instance {member.group_instance_id!r} is another member by now")
    group.members.answer_join(member, fenced)
    group.members.answer_sync(member, fenced)
    group.rename(member, member_id)
    group.extend_session(member, asked.now_ms)
    _update(asked, member)


@attrs.frozen(kw_only=True)
class StaticRejoin(GenerationWrite):
    """The present generation, in which the instance of a static member is another process now.

    The group has the old member until the record is in the log: if that is refused, nothing has happened.
    """

    asked: _Join
    member: ClassicGroupMember

    def appended(self, group: ClassicGroup, now_ms: int) -> None:
        """Have the new process as the member, and answer it."""
        leader_before = group.members.leader or ""
        (new,) = self.replaced.values()
        _fence(self.asked, self.member, new.member_id)
        group.members.answer_join(self.member, self._answer(group, leader_before))

    def refused(self, group: ClassicGroup, error: BrokerError, now_ms: int) -> None:
        """Extend the session of the member that is there: its instance is alive, and will try again."""
        group.extend_session(self.member, now_ms)
        group.members.answer(self.asked.reply, error)

    def _answer(self, group: ClassicGroup, leader_before: str) -> Joined:
        """Return the answer to the member.

        A client without KIP-814 that learns that it is the leader sends an assignment, which is not used: it
        gets its old member id as the leader's.
        """
        if self.asked.request.knows_skip_assignment:
            leads = self.member.member_id == group.members.leader
            return group.joined(self.member, skip_assignment=leads)
        return group.joined(self.member)._replace(leader=leader_before, members=())


def decide_sync(
    group: ClassicGroup, request: SyncRequest, reply: Reply[Synced], now_ms: int
) -> ClassicDecision:
    """Answer a member with its assignment once it is known; the leader's request brings it.

    `reply` may get an error of `GroupService.sync`.
    """
    write: GenerationWrite | None = None
    try:
        write = _sync(group, request, reply)
    except BrokerError as error:
        group.members.answer(reply, error.with_traceback(None))  # as in `decide_join`
    return group.decided(write)


def _sync(group: ClassicGroup, request: SyncRequest, reply: Reply[Synced]) -> GenerationWrite | None:
    member = _check(group, request)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"group {group.group_id!r} begins another generation")
    group.sync_received(member)
    if group.state is GroupState.STABLE:
        group.members.answer(reply, group.synced(member))
        return None
    again = RebalanceInProgress(f"member {member.member_id!r} asks once more")
    group.members.answer_sync(member, again)
    member.awaiting_sync = reply
    if member.member_id != group.members.leader:
        return None
    return NewAssignment(
        assignments={assigned.member_id: assigned.assignment for assigned in request.assignments}
    )


def _check(group: ClassicGroup, request: SyncRequest) -> ClassicGroupMember:
    group.check_alive()
    if group.state is GroupState.EMPTY:
        raise UnknownMemberId(f"group {group.group_id!r} has no members")
    member = group.check_member(request.member_id, request.group_instance_id, request.generation)
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} uses {group.protocol_type!r}, {group.protocol_name!r}"
        )
    return member


def _differs(sent: str | None, known: str | None) -> bool:
    return sent is not None and known is not None and sent != known


@attrs.frozen(kw_only=True)
class NewAssignment(GenerationWrite):
    """The assignment of a generation, by its leader."""

    def appended(self, group: ClassicGroup, now_ms: int) -> None:
        """Send each member its assignment."""
        group.stabilize(self.assignments or {}, now_ms)

    def refused(self, group: ClassicGroup, error: BrokerError, now_ms: int) -> None:
        """Begin another rebalance; members that wait for their assignment get the error."""
        group.clear_assignments(error, now_ms)
        # There are members, and none of them has rejoined yet: the next generation does not begin at once.
        group.prepare(now_ms)


def decide_leave(
    group: ClassicGroup, leaving: Sequence[LeavingMember], now_ms: int
) -> tuple[list[LeaveOutcome], ClassicDecision]:
    """Remove members, with one rebalance for all of them.

    Raises:
        CoordinatorNotAvailable: the group is gone.
    """
    group.check_alive()
    members = len(group.members)
    outcomes = [_leave_one(group, member) for member in leaving]
    if len(group.members) < members:
        return outcomes, group.decided(group.prepare_or_complete(now_ms))
    # A member that had not joined yet may have been the only one that was waited for.
    return outcomes, group.decided(group.complete_if_possible(now_ms))


def _leave_one(group: ClassicGroup, leaving: LeavingMember) -> LeaveOutcome:
    member_id = leaving.member_id
    if group.members.pending.pop(member_id, None) is not None:
        return LeaveOutcome(leaving)
    if member_id == NO_MEMBER_ID and leaving.group_instance_id is not None:
        # A tool names the instance alone, and means its present member.
        member_id = group.members.by_instance.get(leaving.group_instance_id, NO_MEMBER_ID)
    try:
        group.remove(group.members.check(member_id, leaving.group_instance_id))
    except BrokerError as error:
        return LeaveOutcome(leaving, error)
    return LeaveOutcome(leaving)
