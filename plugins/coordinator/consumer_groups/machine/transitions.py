"""Transitions of a consumer group in a draft, whichever protocol its members speak.

A member joins or changes, is replaced, gets its next assignment, is removed; the target assignment changes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.group_records import (
    PartitionMetadataChange,
    RegexChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.member import (
    JOIN_EPOCH,
    ConsumerGroupMember,
    MemberProfile,
)
from tidelog.plugins.coordinator.consumer_groups.member_records import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.consumer_groups.reconciliation import Reconciliation
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
    if member_id in draft.group.members:
        # It gives up what it had itself, which is in no other target.
        draft.raise_epoch(draft.group.metadata_hash)
    yield from remove_member(draft, old.member_id)
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


def remove_member(draft: Draft, member_id: str) -> Generator[None, None, None]:
    """Remove a member, which frees its partitions, in steps."""
    group_id = draft.group.group_id
    yield from draft.apply_in_steps(CurrentChange(group_id, member_id, None))
    draft.apply(TargetChange(group_id, member_id, None))
    draft.apply(MemberChange(group_id, member_id, None))


def set_targets(
    group: ConsumerGroup, changes: Sequence[TargetChange | TargetEpochChange], instances: Mapping[str, str]
) -> Generator[None, None, Draft]:
    """Return a draft with targets that were computed of an earlier state, of members that are still there.

    It is made in steps. `instances` are the instance ids that static members had, by their member ids.
    """
    draft = Draft(group)
    for change in changes:
        present = _of_present_member(change, group, instances)
        if present is not None:
            yield from draft.apply_in_steps(present)
    return draft


def _of_present_member(
    change: TargetChange | TargetEpochChange, group: ConsumerGroup, instances: Mapping[str, str]
) -> TargetChange | TargetEpochChange | None:
    """Return a target for the member that is there now, the same or the one that replaced it, if any is."""
    if not isinstance(change, TargetChange) or change.member_id in group.members:
        return change
    instance_id = instances.get(change.member_id)
    holder = None if instance_id is None else group.static_members.get(instance_id)
    return None if holder is None else attrs.evolve(change, member_id=holder)
