"""All changes of consumer groups by the type of their records, and drafts: changes that are being decided."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from tidelog.kernel.pace import run_to_end
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
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
from tidelog.plugins.coordinator.runtime import StateRecord
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


class Draft:
    """Draft of a group with changes. The group itself stays as it is until the changes are in the log.

    Attributes:
        group: the group with all changes so far
        changes: in the order in which they were made
        becomes_classic: the classic group that replaces this one, which the changes then remove
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group.copy()
        self.changes: list[ConsumerGroupChange] = []
        self.becomes_classic: ClassicGroup | None = None

    def apply(self, change: ConsumerGroupChange) -> None:
        """Make one more change."""
        run_to_end(self.apply_in_steps(change))

    def apply_in_steps(self, change: ConsumerGroupChange) -> Generator[None, None, None]:
        """Make one more change; yield after each small piece of one that may be large."""
        self.changes.append(change)
        yield from change.apply_in_steps(self.group)

    def to_records(self) -> Generator[None, None, list[StateRecord]]:
        """Return the records of the changes, in steps."""
        records: list[StateRecord] = []
        for change in self.changes:
            records.append((yield from change.to_record_in_steps()))
        return records

    def raise_epoch(self, metadata_hash: int) -> None:
        """Raise the group's epoch: the target assignment has to be computed."""
        self.apply(EpochChange(self.group.group_id, self.group.epoch + 1, metadata_hash))

    def remove_group(self) -> Generator[None, None, None]:
        """Remove the group with all its members, in steps."""
        for change in removal_of(self.group):
            yield from self.apply_in_steps(change)
