"""What classic groups need of those who look after the rest: offsets, and groups of the consumer protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidelog.kernel.seams.coordination.groups import (
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    ListedGroup,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import CommitGuard


class GroupOffsets(Protocol):
    """The offsets of a group that is deleted."""

    def holds(self, group_id: str) -> bool:
        """Whether there are any."""
        ...

    def tombstones(self, group_id: str) -> Sequence[StateRecord]:
        """What takes all of them away."""
        ...

    def forget(self, group_id: str) -> None:
        """That is in the log."""
        ...


class ConsumerMembers(Protocol):
    """Classic requests to groups of the consumer protocol (KIP-848): asked if `group_id in self`."""

    def __contains__(self, group_id: str) -> bool: ...

    async def make_classic(self, request: JoinRequest) -> bool:
        """Before a join: whether the group is a classic one now, or none at all, and the join goes there."""
        ...

    async def join(self, request: JoinRequest) -> Joined:
        """See `GroupService`."""
        ...

    def sync(self, request: SyncRequest) -> Synced:
        """See `GroupService`."""
        ...

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """See `GroupService`."""
        ...

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """See `GroupService`."""
        ...


class ConsumerGuard(CommitGuard, Protocol):
    """A `CommitGuard` for the groups of the consumer protocol: asked if `group_id in self`."""

    def __contains__(self, group_id: str) -> bool: ...

    def listed(self) -> Sequence[ListedGroup]:
        """A line of the list of groups for each."""
        ...
