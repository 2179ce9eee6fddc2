"""LeaveGroup in a classic group. Source: KIP-345 (leaving in batches, and by instance id)."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.groups import NO_MEMBER_ID, LeaveOutcome, LeavingMember
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup, Write


def leave(
    group: ClassicGroup, leaving: Sequence[LeavingMember], now_ms: int
) -> tuple[list[LeaveOutcome], Write | None]:
    """Remove members, with one rebalance for all of them.

    Raises:
        CoordinatorNotAvailable: the group is gone.
    """
    group.check_alive()
    members = len(group.members)
    outcomes = [_leave_one(group, member) for member in leaving]
    if len(group.members) < members:
        return outcomes, group.prepare_or_complete(now_ms)
    # A member that had not joined yet may have been the only one that was waited for.
    return outcomes, group.complete_if_possible(now_ms)


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
