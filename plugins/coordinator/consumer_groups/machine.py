"""Decisions about requests of members of the consumer protocol: the answers, and the changes of the group.

Members join, change their subscriptions, are replaced and leave; each change is made in a draft. Members of
the classic protocol are in `classic_members`.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import TypeVar
from uuid import uuid4

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.assigning import assign, may_assign
from tidelog.plugins.coordinator.consumer_groups.draft import Decision, Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.group_records import (
    PartitionMetadataChange,
    RegexChange,
    TargetEpochChange,
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
from tidelog.plugins.coordinator.consumer_groups.member_records import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.consumer_groups.migration import downgrade, may_downgrade
from tidelog.plugins.coordinator.consumer_groups.reconciliation import Reconciliation
from tidelog.plugins.coordinator.consumer_groups.settings import Context
from tidelog.plugins.coordinator.consumer_groups.topics import (
    TopicCatalogue,
    metadata_hash,
    subscribed_ids,
    subscribed_topics,
)

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


def update_member(
    draft: Draft, context: Context, member: ConsumerGroupMember, metadata: MemberProfile
) -> Generator[None, None, bool]:
    """Add or update a member, and raise the group's epoch if another assignment is needed for that.

    It runs in steps.

    Returns:
        Whether the member subscribes to something else than before.
    """
    group = draft.group
    is_new = member.member_id not in group.members
    before = member.metadata
    preferred = group.preferred_assignor(context.settings.default_assignor, context.settings.assignors)
    if is_new or metadata != before:
        draft.apply(MemberChange(group.group_id, member.member_id, metadata))
    topics_changed = update_regexes(draft, context)
    subscription_changed = (metadata.topic_names, metadata.topic_regex) != (
        before.topic_names,
        before.topic_regex,
    )
    now_preferred = group.preferred_assignor(context.settings.default_assignor, context.settings.assignors)
    yield from update_metadata(
        draft,
        context,
        must_raise=is_new or topics_changed or subscription_changed or preferred != now_preferred,
    )
    return subscription_changed


def update_regexes(draft: Draft, context: Context) -> bool:
    """Set resolved expressions, remove unused ones; return whether the group now matches other topics."""
    group = draft.group
    asked = group.regex_subscribers
    for regex in [regex for regex in group.regexes if regex not in asked]:
        draft.apply(RegexChange(group.group_id, regex, None))
    changed = False
    for regex in sorted(context.resolved.keys() & asked.keys()):
        found = context.resolved[regex]
        known = group.regexes.get(regex)
        changed |= known is None or known.topics != found
        resolved = ResolvedRegex(found, context.topics.version, context.now_ms)
        draft.apply(RegexChange(group.group_id, regex, resolved))
    return changed


def update_metadata(draft: Draft, context: Context, *, must_raise: bool) -> Generator[None, None, None]:
    """Raise the group's epoch if `must_raise`, or if its topics are not those of its last epoch; in steps."""
    group = draft.group
    if not must_raise and group.topics_version == context.topics.version:
        # Neither what is subscribed to has changed nor any topic.
        return
    version = context.topics.version
    new_hash = yield from metadata_hash((yield from subscribed_topics(group, context.topics)))
    # Topics may have changed since: then this version is not theirs, and the next heartbeat looks again.
    group.topics_version = version
    if must_raise or new_hash != group.metadata_hash:
        draft.raise_epoch(new_hash)
        if group.has_partition_metadata:
            draft.apply(PartitionMetadataChange(group.group_id, is_present=False))


def replace_static_member(
    draft: Draft, old: ConsumerGroupMember, member_id: str
) -> Generator[None, None, ConsumerGroupMember]:
    """Replace a static member by one with another id, which gets its assignment and begins at epoch 0."""
    new = ConsumerGroupMember(
        member_id,
        old.metadata,
        attrs.evolve(old.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH),
    )
    target = draft.group.targets.get(old.member_id, {})
    yield from _remove(draft, old.member_id)
    group_id = draft.group.group_id
    draft.apply(MemberChange(group_id, member_id, new.metadata))
    draft.apply(TargetChange(group_id, member_id, target))
    yield from draft.apply_in_steps(CurrentChange(group_id, member_id, new.current))
    return new


def reconcile(
    draft: Draft,
    context: Context,
    member_id: str,
    reported: PartitionsByTopic | None,
    *,
    subscription_changed: bool,
) -> Generator[None, None, ConsumerGroupMember]:
    """Move a member one step towards its target assignment, in steps; return the member afterwards."""
    group = draft.group
    member = group.members[member_id]
    current = yield from Reconciliation(
        target_epoch=group.assignment_epoch,
        target=group.targets.get(member_id, {}),
        topic_ids=(yield from subscribed_ids(group, member, context.topics)),
        subscription_changed=subscription_changed,
        reported=reported,
        owners=group.owners,
    ).next_assignment(member)
    if current != member.current:
        yield from draft.apply_in_steps(CurrentChange(group.group_id, member_id, current))
    return group.members[member_id]


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
        yield from _remove(draft, member_id)
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


def _remove(draft: Draft, member_id: str) -> Generator[None, None, None]:
    group_id = draft.group.group_id
    yield from draft.apply_in_steps(CurrentChange(group_id, member_id, None))
    draft.apply(TargetChange(group_id, member_id, None))
    draft.apply(MemberChange(group_id, member_id, None))
