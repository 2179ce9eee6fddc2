"""Decisions about ConsumerGroupHeartbeat: members of the consumer protocol join, stay, and leave."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar
from uuid import uuid4

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.assigning import assign, may_assign
from tidelog.plugins.coordinator.consumer_groups.draft import Decision, Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.machine.departures import depart, leave_temporarily
from tidelog.plugins.coordinator.consumer_groups.machine.transitions import (
    reconcile,
    replace_static_member,
    update_member,
)
from tidelog.plugins.coordinator.consumer_groups.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberProfile,
    MemberState,
    OwnedPartitions,
)
from tidelog.plugins.coordinator.consumer_groups.settings import Context
from tidelog.plugins.coordinator.consumer_groups.topics import TopicCatalogue

T = TypeVar("T")


def heartbeat(
    group: ConsumerGroup, request: ConsumerGroupHeartbeat, context: Context
) -> Generator[None, None, Decision[HeartbeatAnswer]]:
    """Decide about the heartbeat of a member that joins or stays, in steps; `group` stays as it is.

    Raises:
        GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId,
        AssignmentFailed
    """
    checks.check_size(group, request.member_id, request.instance_id, context.settings.max_size)
    if request.member_epoch != JOIN_EPOCH:
        member = _known_member(group, request)
        if not _has_work(group, member, request, context):
            return Decision(answer_to(request, member, member.current, _interval_ms(context)))
    draft = Draft(group)
    member = yield from _member(draft, request)
    before = member.current
    changed = yield from update_member(draft, context, member, _metadata(member.metadata, request))
    assign(draft, context)
    updated = yield from reconcile(
        draft, context, member.member_id, request.owned, subscription_changed=changed
    )
    return Decision(answer_to(request, updated, before, _interval_ms(context)), draft)


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeat, context: Context
) -> Generator[None, None, Decision[HeartbeatAnswer]]:
    """Remove a member, or let a static one leave temporarily (member epoch -2); in steps.

    Raises:
        UnknownMemberId, FencedInstanceId
    """
    if request.instance_id is None:
        member = checks.known_member(group, request.member_id)
    else:
        member = checks.known_static_member(group, request.instance_id, request.member_id)
    answer = HeartbeatAnswer(member.member_id, request.member_epoch)
    if request.member_epoch != LEAVE_STATIC_EPOCH:
        return Decision(answer, (yield from depart(group, [member.member_id], context)))
    draft = Draft(group)
    yield from leave_temporarily(draft, member)
    return Decision(answer, draft)


def _known_member(group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember:
    if request.instance_id is None:
        member = checks.known_member(group, request.member_id)
    else:
        member = checks.known_static_member(group, request.instance_id, request.member_id)
    checks.check_epoch(member, request.member_epoch, request.owned)
    return member


def _member(draft: Draft, request: ConsumerGroupHeartbeat) -> Generator[None, None, ConsumerGroupMember]:
    group = draft.group
    if request.member_epoch != JOIN_EPOCH:
        return _known_member(group, request)
    member_id = request.member_id or str(uuid4())
    if request.instance_id is not None and (holder := group.static_member(request.instance_id)):
        if not holder.is_classic:
            checks.check_released(holder, request.instance_id)
        return (yield from replace_static_member(draft, holder, member_id))
    return group.members.get(member_id) or ConsumerGroupMember(member_id)


def _has_work(
    group: ConsumerGroup, member: ConsumerGroupMember, request: ConsumerGroupHeartbeat, context: Context
) -> bool:
    """Return whether a heartbeat can change anything; nearly all of them cannot."""
    return (
        not member.current.is_reconciled_to(group.assignment_epoch)
        or group.topics_version != context.topics.version
        or bool(context.resolved)
        or (may_assign(group, context) and not context.assigning)
        or _metadata(member.metadata, request) != member.metadata
    )


def _metadata(before: MemberProfile, request: ConsumerGroupHeartbeat) -> MemberProfile:
    """Return the member's subscription; fields that the request leaves out stay as they are."""
    return attrs.evolve(
        before,
        client_id=request.client_id,
        client_host=request.client_host,
        instance_id=_or(request.instance_id, before.instance_id),
        rack_id=_or(request.rack_id, before.rack_id),
        topic_names=_or(request.topic_names, before.topic_names),
        topic_regex=_or(request.topic_regex, before.topic_regex),
        rebalance_timeout_ms=_or(request.rebalance_timeout_ms, before.rebalance_timeout_ms),
        server_assignor=_or(request.server_assignor, before.server_assignor),
        classic=None,
    )


def _or(given: T | None, before: T) -> T:
    return before if given is None else given


def _interval_ms(context: Context) -> int:
    return context.settings.heartbeat_interval_ms


def changes_nothing(
    group: ConsumerGroup, member: ConsumerGroupMember, request: ConsumerGroupHeartbeat, topics: TopicCatalogue
) -> bool:
    """Return whether a heartbeat is one that `heartbeat` would answer without a draft.

    Nearly all are: of a member that has its whole assignment and requests nothing new, in a group where
    nothing is to be assigned. What is left to `heartbeat` is only decided there.
    """
    current, wants = member.current, member.metadata
    return (
        request.member_epoch == current.epoch == group.assignment_epoch == group.epoch > JOIN_EPOCH
        and current.state is MemberState.STABLE
        and not group.regexes
        and request.topic_regex is None
        and request.instance_id in (None, wants.instance_id)
        and request.rack_id in (None, wants.rack_id)
        and request.topic_names in (None, wants.topic_names)
        and request.rebalance_timeout_ms in (None, wants.rebalance_timeout_ms)
        and request.server_assignor in (None, wants.server_assignor)
        and wants.classic is None
        and wants.topic_regex is None
        and request.client_id == wants.client_id
        and request.client_host == wants.client_host
        and group.topics_version == topics.version
    )


def answer_to(
    request: ConsumerGroupHeartbeat, member: ConsumerGroupMember, before: CurrentAssignment, interval_ms: int
) -> HeartbeatAnswer:
    """Return the answer to a heartbeat of a member whose assignment was `before`.

    The assignment is part of it for a member that has another one now, or that may not know the one it has.
    That is one that joins, that sends all fields, that comes with the epoch before, or that owns other
    partitions: it may have missed an answer.
    """
    current = member.current
    has_moved = request.member_epoch in (JOIN_EPOCH, before.previous_epoch) or (
        current is not before and current.assigned != before.assigned
    )
    assigned: PartitionsByTopic | None = None
    if has_moved or request.owned is not None:
        partitions = partitions_of(current.assigned)
        if has_moved or request.owned != partitions or _is_full(request):
            assigned = partitions
    return HeartbeatAnswer(member.member_id, current.epoch, interval_ms, assigned)


def _is_full(request: ConsumerGroupHeartbeat) -> bool:
    return (
        request.rebalance_timeout_ms is not None
        and (request.topic_names is not None or request.topic_regex is not None)
        and request.owned is not None
    )


def partitions_of(owned: OwnedPartitions) -> PartitionsByTopic:
    """Return partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}
