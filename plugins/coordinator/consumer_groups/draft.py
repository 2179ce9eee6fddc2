"""Drafts of consumer groups: changes that are being decided."""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar

from tidelog.kernel.pace import run_to_end
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_records import ConsumerGroupChange, EpochChange
from tidelog.plugins.coordinator.consumer_groups.records import removal_of
from tidelog.plugins.coordinator.runtime import StateRecord

AnswerT = TypeVar("AnswerT")


class Draft:
    """Draft of a group with changes. The group itself stays as it is until the changes are in the log.

    It holds the changes alone, whose number is what it costs, not that of the members.

    Attributes:
        group: the group with all changes so far, until `merge`
        changes: in the order in which they were made
        becomes_classic: the classic group that replaces this one, which the changes then remove
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self._base = group
        self.group = group.draft()
        self.changes: list[ConsumerGroupChange] = []
        self.becomes_classic: ClassicGroup | None = None

    def apply(self, change: ConsumerGroupChange) -> None:
        """Make one more change."""
        run_to_end(self.apply_in_steps(change))

    def apply_in_steps(self, change: ConsumerGroupChange) -> Generator[None, None, None]:
        """Make one more change; yield after each small piece of one that may be large."""
        self.changes.append(change)
        yield from change.apply_in_steps(self.group)

    def merge(self) -> ConsumerGroup:
        """Make the changes in the group itself, once their records are in the log; return it.

        They were made one by one by the methods that apply what is read back, and what these did is merged:
        the group as it is in memory is the one that the log describes.
        """
        self._base.merge(self.group)
        return self._base

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


class Decision(NamedTuple, Generic[AnswerT]):
    """The answer, for when the changes of the draft are in the log; without a draft nothing changes."""

    answer: AnswerT
    draft: Draft | None = None
