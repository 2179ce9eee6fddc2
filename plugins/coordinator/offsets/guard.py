"""What committed offsets need to know of the groups that they belong to, from whoever has the members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
    from tidelog.plugins.coordinator.log import StateRecord


class ExpiryRule(NamedTuple):
    """From when on the retention time of a group's offsets counts (KIP-211), in milliseconds since the epoch.

    `since_ms` is when the group lost its last member; None: each offset counts from its own commit.
    """

    since_ms: int | None = None


class CommitGuard(Protocol):
    """Asked synchronously, before anything is written; all of it is in memory."""

    def check_commit(self, commit: OffsetCommit) -> None:
        """Whether this client may commit; a commit of a member keeps its session alive.

        A group that is not there begins as a simple one when `commit.generation` is negative.

        Raises:
            BrokerError: GroupIdNotFound or IllegalGeneration (no such group, by `commit.knows_epochs`),
                UnknownMemberId, IllegalGeneration, RebalanceInProgress, FencedInstanceId, StaleMemberEpoch.
        """
        ...

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Whether this client may see the group's offsets.

        Raises:
            GroupIdNotFound: there is no such group; the client is then told that nothing is committed.
            UnknownMemberId, StaleMemberEpoch: it says that it is a consumer member, and is not.
        """
        ...

    def check_delete(self, group_id: str) -> None:
        """Whether offsets of this group may be deleted at all.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members, and nobody can say what they subscribe to.
        """
        ...

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member of the group reads the topic: offsets in it are neither deleted nor expire."""
        ...

    def begin_simple(self, group_id: str) -> None:
        """Offsets of this group were read back: unless there is one of that id, it is a simple group."""
        ...

    def group_ids(self, partition: int) -> Sequence[str]:
        """All groups whose state is in that partition of the log."""
        ...

    def expiry(self, group_id: str) -> ExpiryRule | None:
        """How its offsets expire now; None: not at all."""
        ...

    def tombstones(self, group_id: str) -> Sequence[StateRecord] | None:
        """What takes the group itself away, now that it has no offsets; None: it has members, it stays."""
        ...

    def forget(self, group_id: str) -> None:
        """The tombstones are in the log."""
        ...
