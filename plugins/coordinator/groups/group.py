"""Groups of every kind, as tools and committed offsets see them, and those that may have classic members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from tidelog.kernel.errors import BrokerError
    from tidelog.kernel.seams.coordination.groups import (
        Joined,
        JoinRequest,
        LeaveOutcome,
        LeavingMember,
        ListedGroup,
        Synced,
        SyncRequest,
    )
    from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
    from tidelog.plugins.coordinator.runtime import StateRecord

T = TypeVar("T")
R = TypeVar("R")


class ExpiryRule(NamedTuple):
    """From when on the retention time of a group's offsets counts (KIP-211), in milliseconds since the epoch.

    `since_ms` is when the group lost its last member; None: each offset counts from its own commit.
    """

    since_ms: int | None = None


class Group:
    """A group in the registry: what groups of every kind have.

    The partition of the log that holds the group's state is active whenever a request comes here; the caller
    has checked that.
    """

    group_id: str
    partition: int

    def listed(self) -> ListedGroup:
        """Return the group's entry of the list of groups."""
        raise NotImplementedError

    def check_commit(self, commit: OffsetCommit) -> None:
        """Check that the client may commit offsets.

        Raises:
            BrokerError: UnknownMemberId, IllegalGeneration, RebalanceInProgress, FencedInstanceId,
                StaleMemberEpoch, UnsupportedVersion, CoordinatorNotAvailable.
        """
        raise NotImplementedError

    def extend_session_of_commit(self, commit: OffsetCommit) -> None:
        """Extend the session of the member that sent a commit which was checked, where commits do that."""

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Check that the client may fetch the committed offsets.

        Raises:
            UnknownMemberId, StaleMemberEpoch, IllegalGeneration: the client claims to be a member in another
                epoch than the one of that member.
        """
        raise NotImplementedError

    def check_delete_offsets(self) -> None:
        """Check that committed offsets may be deleted at all.

        Raises:
            GroupIdNotFound: the group has been removed.
            NonEmptyGroup: the group has members whose subscriptions are unknown.
        """
        raise NotImplementedError

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic: its offsets are neither deleted nor expire."""
        raise NotImplementedError

    def expiry(self) -> ExpiryRule | None:
        """Return how the group's offsets expire now, None if they do not."""
        raise NotImplementedError

    def is_empty(self) -> bool:
        """Return whether the group has no members; some may be about to join."""
        raise NotImplementedError

    def is_idle(self) -> bool:
        """Return whether the group has no members, and none is about to join."""
        raise NotImplementedError

    def tombstones(self) -> Sequence[StateRecord]:
        """Return the records that remove the group from the log, its offsets excepted."""
        raise NotImplementedError

    def resume(self) -> None:
        """Start the sessions of all members: the group was read back, and its partition becomes active."""
        raise NotImplementedError

    def close(self, reason: BrokerError) -> None:
        """Cancel all timers, and answer every request that waits with `reason`."""
        raise NotImplementedError


class ClassicMembership(Group):
    """The requests of members of the classic protocol, for groups that may have some.

    The partition of the group's state is active. Only `leave` and a join or sync that has to wait are
    asynchronous.
    """

    def classic_join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """Add a member, or let one rejoin; see `GroupService.join`."""
        raise NotImplementedError

    def classic_sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """Return a member's assignment; see `GroupService.sync`."""
        raise NotImplementedError

    def classic_heartbeat(self, member_id: str, generation: int, group_instance_id: str | None) -> None:
        """Extend the session of a member; see `GroupService.heartbeat`."""
        raise NotImplementedError

    async def classic_leave(self, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Remove members; see `GroupService.leave`."""
        raise NotImplementedError


class MadeOnDemand(Sequence[R], Generic[T, R]):
    """What `make` returns of each item, made when it is read; equal to any sequence of equal elements.

    For descriptions of groups with very many members.
    """

    def __init__(self, items: Iterable[T], make: Callable[[T], R]) -> None:
        self._items = tuple(items)
        self._make = make

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[R]: ...
    def __getitem__(self, index: int | slice) -> R | Sequence[R]:
        if isinstance(index, slice):
            return MadeOnDemand(self._items[index], self._make)
        return self._make(self._items[index])

    def __iter__(self) -> Iterator[R]:
        return map(self._make, self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
