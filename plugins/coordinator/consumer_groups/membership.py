"""Changes of membership in a draft: members join, change their subscriptions, are replaced, leave."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    MemberProfile,
)
from tidelog.plugins.coordinator.consumer_groups.migration import downgrade, may_downgrade
from tidelog.plugins.coordinator.consumer_groups.reconciliation import Reconciliation
from tidelog.plugins.coordinator.consumer_groups.records import (
    CurrentChange,
    MemberChange,
    PartitionMetadataChange,
    RegexChange,
    TargetChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.settings import Context
from tidelog.plugins.coordinator.consumer_groups.topics import (
    metadata_hash,
    subscribed_ids,
    subscribed_topics,
)


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
