"""Taking changes over into a group: the one place where a group changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from tidelog.plugins.coordinator.consumer_groups import changes
from tidelog.plugins.coordinator.consumer_groups.changes import Change
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import (
    LEAVE_EPOCH,
    CurrentAssignment,
    Member,
    OwnedPartitions,
)

NO_ASSIGNMENT_EPOCH = -1


def apply(group: ConsumerGroup, change: Change) -> None:
    """Take a change over; the same for a decision that was just made and for a record that was read."""
    _APPLY[type(change)](group, change)


def _set_epoch(group: ConsumerGroup, change: changes.EpochSet) -> None:
    group.epoch, group.metadata_hash = change.epoch, change.metadata_hash


def _remove_group(group: ConsumerGroup, change: changes.GroupRemoved) -> None:
    group.removed = True


def _set_partition_metadata(group: ConsumerGroup, change: changes.PartitionMetadataSet) -> None:
    group.has_partition_metadata = True


def _remove_partition_metadata(group: ConsumerGroup, change: changes.PartitionMetadataRemoved) -> None:
    group.has_partition_metadata = False


def _set_member(group: ConsumerGroup, change: changes.MemberSet) -> None:
    member = group.members.get(change.member_id) or Member(change.member_id)
    _forget_instance(group, member)
    group.members[change.member_id] = attrs.evolve(member, metadata=change.metadata)
    if change.metadata.instance_id is not None:
        group.static_members[change.metadata.instance_id] = change.member_id


def _remove_member(group: ConsumerGroup, change: changes.MemberRemoved) -> None:
    member = group.members.pop(change.member_id, None)
    if member is not None:
        _forget_instance(group, member)
        _disown(group, member.member_id, member.current)


def _set_assignment_epoch(group: ConsumerGroup, change: changes.AssignmentEpochSet) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = change.epoch, change.timestamp_ms


def _remove_assignment_epoch(group: ConsumerGroup, change: changes.AssignmentEpochRemoved) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0


def _set_target(group: ConsumerGroup, change: changes.TargetSet) -> None:
    group.targets[change.member_id] = change.partitions


def _remove_target(group: ConsumerGroup, change: changes.TargetRemoved) -> None:
    group.targets.pop(change.member_id, None)


def _set_current(group: ConsumerGroup, change: changes.CurrentSet) -> None:
    member = group.members.get(change.member_id) or Member(change.member_id)
    _disown(group, change.member_id, member.current)
    group.members[change.member_id] = attrs.evolve(member, current=change.current)
    for owned in (change.current.assigned, change.current.revoking):
        for topic_id, partitions in owned.items():
            for partition in partitions:
                group.owners[topic_id, partition] = change.member_id


def _remove_current(group: ConsumerGroup, change: changes.CurrentRemoved) -> None:
    member = group.members.get(change.member_id)
    if member is not None:
        _disown(group, change.member_id, member.current)
        gone = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)
        group.members[change.member_id] = attrs.evolve(member, current=gone)


def _set_regex(group: ConsumerGroup, change: changes.RegexSet) -> None:
    group.regexes[change.regex] = change.resolved


def _remove_regex(group: ConsumerGroup, change: changes.RegexRemoved) -> None:
    group.regexes.pop(change.regex, None)


def _forget_instance(group: ConsumerGroup, member: Member) -> None:
    instance_id = member.metadata.instance_id
    if instance_id is not None and group.static_members.get(instance_id) == member.member_id:
        del group.static_members[instance_id]


def _disown(group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> None:
    for owned in (current.assigned, current.revoking):
        _disown_partitions(group, member_id, owned)


def _disown_partitions(group: ConsumerGroup, member_id: str, owned: OwnedPartitions) -> None:
    for topic_id, partitions in owned.items():
        for partition in partitions:
            if group.owners.get((topic_id, partition)) == member_id:
                del group.owners[topic_id, partition]


_APPLY: Final[dict[type[Any], Callable[[ConsumerGroup, Any], None]]] = {
    changes.EpochSet: _set_epoch,
    changes.GroupRemoved: _remove_group,
    changes.PartitionMetadataSet: _set_partition_metadata,
    changes.PartitionMetadataRemoved: _remove_partition_metadata,
    changes.MemberSet: _set_member,
    changes.MemberRemoved: _remove_member,
    changes.AssignmentEpochSet: _set_assignment_epoch,
    changes.AssignmentEpochRemoved: _remove_assignment_epoch,
    changes.TargetSet: _set_target,
    changes.TargetRemoved: _remove_target,
    changes.CurrentSet: _set_current,
    changes.CurrentRemoved: _remove_current,
    changes.RegexSet: _set_regex,
    changes.RegexRemoved: _remove_regex,
}
