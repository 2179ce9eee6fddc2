"""What groups of the consumer protocol need of those of the classic protocol: a group is of one kind only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidelog.plugins.coordinator.consumer_groups.migration import ClassicGroup
from tidelog.plugins.coordinator.log import StateRecord


class ClassicGroups(Protocol):
    """The groups of the classic protocol, all in memory. Changes are in the log before they are told here."""

    def snapshot(self, group_id: str) -> ClassicGroup | None:
        """A classic group as it is now; None without one, or when it only keeps offsets (a simple group)."""
        ...

    def tombstones(self, group_id: str) -> Sequence[StateRecord]:
        """What takes its record out of the log, its offsets excepted."""
        ...

    def displace(self, group_id: str) -> None:
        """It is a consumer group now: forget it if it is there, and let members that wait join again."""
        ...

    def records(self, classic: ClassicGroup) -> Sequence[StateRecord]:
        """What puts such a group into the log."""
        ...

    def adopt(self, classic: ClassicGroup) -> None:
        """It is a classic group now: its members go on, and rebalance."""
        ...


class NoClassicGroups:
    """There are none, and no group becomes one."""

    def snapshot(self, group_id: str) -> ClassicGroup | None:
        """See `ClassicGroups`."""
        return None

    def tombstones(self, group_id: str) -> Sequence[StateRecord]:
        """See `ClassicGroups`."""
        return ()

    def displace(self, group_id: str) -> None:
        """See `ClassicGroups`."""

    def records(self, classic: ClassicGroup) -> Sequence[StateRecord]:
        """See `ClassicGroups`."""
        return ()

    def adopt(self, classic: ClassicGroup) -> None:
        """See `ClassicGroups`."""
