"""Computation of the target assignment of a consumer group: of a large one in steps or in a thread."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping

import trio

from tidelog.kernel.pace import run_in_steps, run_to_end
from tidelog.kernel.seams.coordination.assignors import (
    AssignmentFailed,
    AssignorInSteps,
    GroupSpec,
    MemberSubscription,
    PartitionsByTopic,
)
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_records import TargetEpochChange
from tidelog.plugins.coordinator.consumer_groups.member_records import TargetChange
from tidelog.plugins.coordinator.consumer_groups.settings import Context
from tidelog.plugins.coordinator.consumer_groups.topics import TopicCatalogue, subscribed_topics

_log = logging.getLogger(__name__)

LARGE = 1000
"""Members, subscriptions and partitions, all together, that take about 3 ms to assign."""


def may_assign(group: ConsumerGroup, context: Context) -> bool:
    """Return whether a target assignment is due, and the last one was long enough ago (KIP-1263)."""
    if group.assignment_epoch >= group.epoch:
        return False
    computed, interval = group.assignment_timestamp_ms, context.settings.assignment_interval_ms
    return not computed or not interval or context.now_ms >= computed + interval


def is_large(group: ConsumerGroup, topics: TopicCatalogue) -> bool:
    """Return whether the group's assignment takes too long for one step of the event loop."""
    size = len(group.members)
    if size <= LARGE:
        size += sum(len(group.subscribed_names(each)) for each in group.members.values())
    if size <= LARGE:
        size += sum(entry.partitions for entry in run_to_end(subscribed_topics(group, topics)))
    return size > LARGE


def assign(draft: Draft, context: Context) -> None:
    """Compute the target assignment of the group's epoch, if it is time to.

    That of a large group is left to `BackgroundAssignment`.

    Raises:
        AssignmentFailed: the assignor could not, or broke its contract.
    """
    group = draft.group
    if not may_assign(group, context):
        return
    if is_large(group, context.topics):
        if not group.assignment_epoch:
            # A member has to get an epoch above that of a join: an assignment without partitions comes first.
            draft.apply(TargetEpochChange(group.group_id, group.epoch))
            draft.raise_epoch(group.metadata_hash)
        return
    name = _assignor(group, context)
    spec = run_to_end(_spec(group, context))
    assigned = context.settings.assignors[name].assign(spec)
    for change in run_to_end(_changes(name, group, spec, assigned)):
        draft.apply(change)
    draft.apply(TargetEpochChange(group.group_id, group.epoch, context.now_ms))
    _log.info("group %s: assignment of epoch %d by %s", group.group_id, group.epoch, name)


async def target_changes(group: ConsumerGroup, context: Context) -> list[TargetChange]:
    """Return the changes of targets to an assignment of the group as it is now; others are served meanwhile.

    Raises:
        AssignmentFailed: the assignor could not, or broke its contract.
    """
    name = _assignor(group, context)
    spec = await run_in_steps(_spec(group, context))
    assignor = context.settings.assignors[name]
    if isinstance(assignor, AssignorInSteps):
        assigned = await run_in_steps(assignor.assign_in_steps(spec))
    else:
        assigned = await trio.to_thread.run_sync(assignor.assign, spec)
    return await run_in_steps(_changes(name, group, spec, assigned))


def _assignor(group: ConsumerGroup, context: Context) -> str:
    return group.preferred_assignor(context.settings.default_assignor, context.settings.assignors)


def _spec(group: ConsumerGroup, context: Context) -> Generator[None, None, GroupSpec]:
    """Return what there is to assign. Members that subscribe to the same topics share one set of ids.

    A large group may change between the steps: it is assigned as it was at the first one.
    """
    ids_of: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    members: dict[str, MemberSubscription] = {}
    targets = dict(group.targets)
    for member_id, member in sorted(group.members.items()):
        names = group.subscribed_names(member)
        if names not in ids_of:
            entries = [entry for name in names if (entry := context.topics.by_name(name)) is not None]
            ids_of[names] = frozenset(entry.topic_id for entry in entries)
            counts.update((entry.topic_id, entry.partitions) for entry in entries)
        members[member_id] = MemberSubscription(
            ids_of[names],
            targets.get(member_id, {}),
            member.metadata.instance_id,
            member.metadata.rack_id,
        )
        yield
    return GroupSpec(members, counts)


def _changes(
    assignor: str, group: ConsumerGroup, spec: GroupSpec, assigned: Mapping[str, PartitionsByTopic]
) -> Generator[None, None, list[TargetChange]]:
    """Validate what an assignor returned, as any plugin may offer one; return the targets that change."""
    changes: list[TargetChange] = []
    taken: dict[bytes, set[int]] = {}
    for member_id, topics in assigned.items():
        member = spec.members.get(member_id)
        for topic_id, partitions in topics.items():
            others = taken.setdefault(topic_id, set())
            if member is None or topic_id not in member.topic_ids or not partitions:
                raise AssignmentFailed(f"the assignor {assignor} gave {member_id} what it cannot have")
            if not others.isdisjoint(partitions):
                raise AssignmentFailed(f"the assignor {assignor} gave {member_id} what it cannot have")
            if max(partitions) >= spec.partition_counts[topic_id] or min(partitions) < 0:
                raise AssignmentFailed(f"the assignor {assignor} gave away partitions that do not exist")
            others |= partitions
        yield
    for member_id in spec.members:
        target = assigned.get(member_id, {})
        if target != group.targets.get(member_id):
            changes.append(TargetChange(group.group_id, member_id, target))
        yield
    return changes
