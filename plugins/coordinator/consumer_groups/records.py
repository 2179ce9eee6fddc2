"""The records of consumer groups, by the types of their keys, and all of those that remove a group."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_records import (
    ConsumerGroupChange,
    EpochChange,
    PartitionMetadataChange,
    RegexChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.member_records import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES

CHANGES: Final[dict[int, type[ConsumerGroupChange]]] = {
    change.key_type: change
    for change in (
        EpochChange,
        PartitionMetadataChange,
        MemberChange,
        TargetEpochChange,
        TargetChange,
        CurrentChange,
        RegexChange,
    )
}
"""Classes of changes by the types of their keys."""


def read_change(key: bytes, value: bytes | None) -> ConsumerGroupChange:
    """Return the change of a record that was read back; the type of its key is one of `CHANGES`.

    Raises:
        UnreadableRecord: it is malformed, or of a version that is newer than this broker.
    """
    return CHANGES[int.from_bytes(key[:TYPE_BYTES])].from_record(key, value)


def removal_of(group: ConsumerGroup) -> list[ConsumerGroupChange]:
    """Return the changes that remove a group with all its members, in an order that is whole at every step.

    Apache Kafka fails to load a group whose members are removed before what refers to them.
    """
    group_id = group.group_id
    removed: list[ConsumerGroupChange] = [
        CurrentChange(group_id, member_id, None) for member_id in group.members
    ]
    removed += [TargetChange(group_id, member_id, None) for member_id in group.targets]
    removed.append(TargetEpochChange(group_id, None))
    removed += [MemberChange(group_id, member_id, None) for member_id in group.members]
    if group.has_partition_metadata:
        removed.append(PartitionMetadataChange(group_id, is_present=False))
    removed += [RegexChange(group_id, regex, None) for regex in group.regexes]
    removed.append(EpochChange(group_id, None))
    return removed
