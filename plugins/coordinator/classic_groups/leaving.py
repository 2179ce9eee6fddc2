"""LeaveGroup in a classic group. Source: seed 003, "LeaveGroup Request"; KIP-345 (batches, instance ids)."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.errors import BrokerError, CoordinatorNotAvailable
from tidelog.kernel.seams.coordination.groups import NO_MEMBER_ID, LeaveOutcome, LeavingMember
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.images import Write
from tidelog.plugins.coordinator.classic_groups.rebalance import complete_if_possible, prepare_or_complete
from tidelog.plugins.coordinator.classic_groups.states import GroupState


def leave(
    group: ClassicGroup, leaving: Sequence[LeavingMember], now_ms: int
) -> tuple[list[LeaveOutcome], Write | None]:
    """Let members go, with one rebalance for all of them.

    Raises:
        CoordinatorNotAvailable: the group is gone.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorNotAvailable(f"group {group.group_id!r} has just been removed")
    members = len(group.members)
    outcomes = [_leave_one(group, member) for member in leaving]
    if len(group.members) < members:
        return outcomes, prepare_or_complete(group, now_ms)
    # Who had not joined yet may still have been waited for.
    return outcomes, complete_if_possible(group, now_ms)


def _leave_one(group: ClassicGroup, leaving: LeavingMember) -> LeaveOutcome:
    member_id = leaving.member_id
    if group.pending.pop(member_id, None) is not None:
        return LeaveOutcome(leaving)
    if member_id == NO_MEMBER_ID and leaving.group_instance_id is not None:
        # An operator names the instance alone and means whoever has its place.
        member_id = group.static_members.get(leaving.group_instance_id, NO_MEMBER_ID)
    try:
        group.remove(group.check_member(member_id, leaving.group_instance_id))
    except BrokerError as error:
        return LeaveOutcome(leaving, error)
    return LeaveOutcome(leaving)
