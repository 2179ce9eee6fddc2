"""Computation of the target assignment of a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidelog.kernel.seams.coordination.assignors import (
    AssignmentFailed,
    GroupSpec,
    MemberSubscription,
    PartitionsByTopic,
)
from tidelog.plugins.coordinator.consumer_groups.changes import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_changes import TargetEpochChange
from tidelog.plugins.coordinator.consumer_groups.member_changes import TargetChange
from tidelog.plugins.coordinator.consumer_groups.settings import Context
from tidelog.plugins.coordinator.consumer_groups.topics import subscribed_ids, subscribed_topics

_log = logging.getLogger(__name__)


def may_assign(group: ConsumerGroup, context: Context) -> bool:
    """Return whether a target assignment is due, and the last one was long enough ago (KIP-1263)."""
    if group.assignment_epoch >= group.epoch:
        return False
    computed, interval = group.assignment_timestamp_ms, context.settings.assignment_interval_ms
    return not computed or not interval or context.now_ms >= computed + interval


def assign(draft: Draft, context: Context) -> None:
    """Compute the target assignment of the group's epoch, if it is time to.

    Raises:
        AssignmentFailed: the assignor could not, or broke its contract.
    """
    group = draft.group
    if not may_assign(group, context):
        return
    assignors = context.settings.assignors
    name = group.preferred_assignor(context.settings.default_assignor, assignors)
    spec = _spec(group, context)
    assigned = assignors[name].assign(spec)
    _check(name, spec, assigned)
    for member_id in spec.members:
        target = assigned.get(member_id, {})
        if target != group.targets.get(member_id):
            draft.apply(TargetChange(group.group_id, member_id, target))
    draft.apply(TargetEpochChange(group.group_id, group.epoch, context.now_ms))
    _log.info("group %s: assignment of epoch %d by %s", group.group_id, group.epoch, name)


def _spec(group: ConsumerGroup, context: Context) -> GroupSpec:
    counts = {entry.topic_id: entry.partitions for entry in subscribed_topics(group, context.topics)}
    members = {
        member_id: MemberSubscription(
            subscribed_ids(group, member, context.topics),
            group.targets.get(member_id, {}),
            member.metadata.instance_id,
            member.metadata.rack_id,
        )
        for member_id, member in sorted(group.members.items())
    }
    return GroupSpec(members, counts)


def _check(assignor: str, spec: GroupSpec, assigned: Mapping[str, PartitionsByTopic]) -> None:
    """Validate what an assignor returned: any plugin may offer one."""
    taken: set[tuple[bytes, int]] = set()
    for member_id, topics in assigned.items():
        member = spec.members.get(member_id)
        for topic_id, partitions in topics.items():
            pairs = {(topic_id, partition) for partition in partitions}
            if member is None or topic_id not in member.topic_ids or not pairs or taken & pairs:
                raise AssignmentFailed(f"the assignor {assignor} gave {member_id} what it cannot have")
            if max(partitions) >= spec.partition_counts[topic_id] or min(partitions) < 0:
                raise AssignmentFailed(f"the assignor {assignor} gave away partitions that do not exist")
            taken |= pairs
