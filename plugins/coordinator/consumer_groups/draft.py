"""A decision under way: a copy of a group, changed step by step, and the changes that led there."""

from __future__ import annotations

from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.consumer_groups.applying import apply
from tidelog.plugins.coordinator.consumer_groups.changes import Change, EpochSet
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup


class Draft:
    """What a group would become. The group itself stays as it is until the changes are in the log.

    Attributes:
        group: the group with all changes so far
        changes: in the order in which they were made
        becomes_classic: the classic group that takes this one's place, which the changes then remove
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group.copy()
        self.changes: list[Change] = []
        self.becomes_classic: ClassicGroup | None = None

    def apply(self, change: Change) -> None:
        """Make one more change."""
        self.changes.append(change)
        apply(self.group, change)

    def raise_epoch(self, metadata_hash: int) -> None:
        """Have the target assignment computed anew."""
        self.apply(EpochSet(self.group.epoch + 1, metadata_hash))
