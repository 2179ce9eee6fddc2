"""Deciding about members that go: by themselves, for a while, or because they were not heard of."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.context import Context
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.heartbeats import Decision
from tidelog.plugins.coordinator.consumer_groups.member import LEAVE_STATIC_EPOCH
from tidelog.plugins.coordinator.consumer_groups.membership import leave_for_a_while, remove_members
from tidelog.plugins.coordinator.consumer_groups.migration import downgrade, may_downgrade, removal


def leave(group: ConsumerGroup, request: ConsumerGroupHeartbeat, context: Context) -> Decision:
    """A member says goodbye, for good or (a static one) for a while.

    Raises:
        UnknownMemberId, FencedInstanceId
    """
    if request.instance_id is None:
        member = checks.known_member(group, request.member_id)
    else:
        member = checks.known_static_member(group, request.instance_id, request.member_id)
    answer = HeartbeatAnswer(member.member_id, request.member_epoch)
    if request.member_epoch != LEAVE_STATIC_EPOCH:
        return Decision(answer, depart(group, [member.member_id], context))
    draft = Draft(group)
    leave_for_a_while(draft, member)
    return Decision(answer, draft)


def depart(group: ConsumerGroup, leaving: Collection[str], context: Context) -> Draft:
    """Members go. If all that stay speak the classic protocol, so does the group from then on."""
    draft = Draft(group)
    if may_downgrade(group, leaving, context.settings):
        draft.becomes_classic = downgrade(group, leaving, context)
        for change in removal(group):
            draft.apply(change)
    else:
        remove_members(draft, context, leaving)
    return draft
