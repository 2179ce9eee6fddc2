"""Members of a classic group leave: by LeaveGroup, or because a deadline passes.

Source: KIP-345 (leaving in batches, and by instance id).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidelog.kernel.errors import BrokerError, CoordinatorNotAvailable
from tidelog.kernel.seams.coordination.groups import NO_MEMBER_ID, LeaveOutcome, LeavingMember
from tidelog.plugins.coordinator.classic_groups.changes import Write
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.member import Member
from tidelog.plugins.coordinator.classic_groups.rebalance import (
    complete_if_all_joined,
    complete_if_possible,
    join_deadline_passed,
    prepare,
    prepare_or_complete,
)
from tidelog.plugins.coordinator.classic_groups.states import GroupState


def leave(
    group: ClassicGroup, leaving: Sequence[LeavingMember], now_ms: int
) -> tuple[list[LeaveOutcome], Write | None]:
    """Remove members, with one rebalance for all of them.

    Raises:
        CoordinatorNotAvailable: the group is gone.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorNotAvailable(f"group {group.group_id!r} has just been removed")
    members = len(group.members)
    outcomes = [_leave_one(group, member) for member in leaving]
    if len(group.members) < members:
        return outcomes, prepare_or_complete(group, now_ms)
    # A member that had not joined yet may have been the only one that was waited for.
    return outcomes, complete_if_possible(group, now_ms)


def _leave_one(group: ClassicGroup, leaving: LeavingMember) -> LeaveOutcome:
    member_id = leaving.member_id
    if group.pending.pop(member_id, None) is not None:
        return LeaveOutcome(leaving)
    if member_id == NO_MEMBER_ID and leaving.group_instance_id is not None:
        # A tool names the instance alone, and means its present member.
        member_id = group.static_members.get(leaving.group_instance_id, NO_MEMBER_ID)
    try:
        group.remove(group.check_member(member_id, leaving.group_instance_id))
    except BrokerError as error:
        return LeaveOutcome(leaving, error)
    return LeaveOutcome(leaving)


def handle_deadlines(group: ClassicGroup, now_ms: int) -> Write | None:
    """Handle all deadlines that have passed, and compute the next one.

    There is never more than one change to write: the last member was removed.
    """
    write: Write | None = None
    for member_id in [member_id for member_id, until in group.pending.items() if until <= now_ms]:
        del group.pending[member_id]
        write = complete_if_all_joined(group, now_ms) or write
    for member in [member for member in group.members.values() if _is_over(member, now_ms)]:
        write = _session_over(group, member, now_ms) or write
    if group.join_deadline_ms is not None and group.join_deadline_ms <= now_ms:
        write = join_deadline_passed(group, now_ms) or write
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
        write = _sync_deadline_passed(group, now_ms) or write
    group.timer_ms = min(group.deadlines(), default=math.inf)
    return write


def _is_over(member: Member, now_ms: int) -> bool:
    return member.deadline_ms is not None and member.deadline_ms <= now_ms


def _session_over(group: ClassicGroup, member: Member, now_ms: int) -> Write | None:
    if group.members.get(member.member_id) is not member or not _is_over(member, now_ms):
        # Handling another member's deadline has changed this one's.
        return None
    if member.is_excused():
        member.deadline_ms = None
        return None
    group.remove(member)
    if group.state is GroupState.PREPARING_REBALANCE:
        return complete_if_all_joined(group, now_ms)
    return prepare_or_complete(group, now_ms)


def _sync_deadline_passed(group: ClassicGroup, now_ms: int) -> Write | None:
    """Remove the members that joined the generation and sent no SyncGroup."""
    group.sync_deadline_ms = None
    missing = [group.members[member_id] for member_id in group.pending_sync if member_id in group.members]
    for member in missing:
        group.remove(member)
    return prepare(group, now_ms) if missing else None


def start_sessions(group: ClassicGroup, now_ms: int, *, rebalance: bool) -> Write | None:
    """Start the sessions of all members of a group that was loaded or changed its protocol.

    One that is too large rebalances in any case: its members can commit before some are rejected.
    """
    for member in group.members.values():
        group.extend_session(member, now_ms)
    if group.members and (rebalance or len(group.members) > group.settings.max_size):
        return prepare(group, now_ms)
    return None


def end_group(group: ClassicGroup, reason: BrokerError) -> None:
    """End a group: every request that waits is answered with `reason`."""
    if group.state is GroupState.DEAD:
        return
    group.become(GroupState.DEAD)
    for member in group.members.values():
        group.answer_join(member, reason)
        group.answer_sync(member, reason)
