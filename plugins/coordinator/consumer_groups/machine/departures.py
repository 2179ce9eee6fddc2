"""Decisions about members that leave a consumer group, by either protocol, or whose timers have expired."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.errors import FencedInstanceId, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import LeaveOutcome, LeavingMember
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.draft import Decision, Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_records import TargetEpochChange
from tidelog.plugins.coordinator.consumer_groups.machine.transitions import (
    remove_member,
    update_metadata,
    update_regexes,
)
from tidelog.plugins.coordinator.consumer_groups.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
)
from tidelog.plugins.coordinator.consumer_groups.member_records import CurrentChange
from tidelog.plugins.coordinator.consumer_groups.migration import downgrade, may_downgrade
from tidelog.plugins.coordinator.consumer_groups.settings import Context

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.consumer_groups.timers import Overdue


def leave_group(
    group: ConsumerGroup, leaving: Sequence[LeavingMember], context: Context
) -> Generator[None, None, Decision[list[LeaveOutcome]]]:
    """Decide about a LeaveGroup request, in steps; members may speak either protocol."""
    member_ids: dict[str, None] = {}
    outcomes: list[LeaveOutcome] = []
    for identity in leaving:
        try:
            member_ids[checks.leaving_member(group, identity).member_id] = None
            outcomes.append(LeaveOutcome(identity))
        except (UnknownMemberId, FencedInstanceId) as error:
            outcomes.append(LeaveOutcome(identity, error))
        yield
    return Decision(outcomes, (yield from depart(group, member_ids, context)) if member_ids else None)


def expire_members(
    group: ConsumerGroup,
    overdue: Sequence[Overdue],
    is_overdue: Callable[[Overdue], bool],
    context: Context,
) -> Generator[None, None, Decision[list[Overdue]]]:
    """Remove members whose timers have expired, in steps; the answer is which are removed.

    `is_overdue` returns whether one still is: a request of it may have come while it waited for its turn.
    """
    leaving: dict[str, Overdue] = {}
    for each in overdue:
        if each.member_id in group.members and is_overdue(each):
            leaving[each.member_id] = each
        yield
    expired = [*leaving.values()]
    return Decision(expired, (yield from depart(group, leaving, context)) if expired else None)


def leave_temporarily(draft: Draft, member: ConsumerGroupMember) -> Generator[None, None, None]:
    """Keep the partitions of a static member that will rejoin; those that it had to revoke are free."""
    assigned = {
        topic_id: dict.fromkeys(partitions, JOIN_EPOCH)
        for topic_id, partitions in member.current.assigned.items()
    }
    current = attrs.evolve(member.current, epoch=LEAVE_STATIC_EPOCH, assigned=assigned, revoking={})
    yield from draft.apply_in_steps(CurrentChange(draft.group.group_id, member.member_id, current))


def remove_members(draft: Draft, context: Context, member_ids: Iterable[str]) -> Generator[None, None, None]:
    """Remove members, which frees their partitions, and raise the group's epoch; in steps."""
    for member_id in member_ids:
        yield from remove_member(draft, member_id)
    update_regexes(draft, attrs.evolve(context, resolved={}))
    yield from update_metadata(draft, context, must_raise=True)
    if not draft.group.members:
        # An empty group has nothing to assign; the next member need not wait for the interval.
        draft.apply(TargetEpochChange(draft.group.group_id, draft.group.epoch))


def depart(group: ConsumerGroup, leaving: Collection[str], context: Context) -> Generator[None, None, Draft]:
    """Return a draft without some members; if all that stay speak the classic protocol, so does the group.

    It is made in steps.
    """
    draft = Draft(group)
    if may_downgrade(group, leaving, context.settings):
        draft.becomes_classic = yield from downgrade(group, leaving, context)
        yield from draft.remove_group()
    else:
        yield from remove_members(draft, context, leaving)
    return draft
