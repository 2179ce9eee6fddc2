"""Groups of the classic protocol: joining, syncing, heartbeats, leaving, and what tools ask about groups.

Source: Kafka protocol guide, the groups' messages; KIP-62 (rebalance timeout), KIP-134
(initial delay), KIP-345 (static members), KIP-394 (member ids), KIP-518 and KIP-848 (filters), KIP-814
(static leaders).
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import Literal, NamedTuple, Protocol

import attrs

from tidelog.kernel.errors import BrokerError

NO_GENERATION = -1
NO_MEMBER_ID = ""

GroupType = Literal["classic", "consumer"]


class GroupProtocol(NamedTuple):
    """A way of sharing work that a member knows, and what it says about itself in that way (opaque)."""

    name: str
    metadata: bytes


@attrs.frozen
class JoinRequest:
    """A member that wants in, or wants in again.

    `protocols` stand in the member's order of preference. With `knows_member_id_required` a new dynamic
    member is only given an id and has to join again with it; with `knows_skip_assignment` a static leader
    that comes back can be told that the assignment stands.
    """

    group_id: str
    member_id: str
    protocol_type: str
    protocols: Sequence[GroupProtocol]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    group_instance_id: str | None = None
    reason: str | None = None
    knows_member_id_required: bool = False
    knows_skip_assignment: bool = False


class JoinedMember(NamedTuple):
    """What the leader is told about a member: its metadata in the protocol that was chosen."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@attrs.frozen
class Joined:
    """A generation has begun. Only its leader gets `members`; only one told to skip has nothing to assign."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class Assignment(NamedTuple):
    """A member's share, as the leader decided (opaque)."""

    member_id: str
    assignment: bytes


@attrs.frozen
class SyncRequest:
    """A member asks for its share; the leader's request brings everybody's.

    Protocol type and name are None in versions that do not tell them.
    """

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[Assignment] = ()


@attrs.frozen
class Synced:
    """A member's share of the generation."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class LeavingMember(NamedTuple):
    """Who leaves; a static member can be named by its instance id alone, with an empty member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveOutcome(NamedTuple):
    """What became of one who was to leave: `error` is None, UnknownMemberId or FencedInstanceId."""

    member: LeavingMember
    error: BrokerError | None = None


@attrs.frozen
class DescribedMember:
    """A member as tools see it; the metadata is empty while a rebalance is under way."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen
class DescribedGroup:
    """A group as tools see it; the protocol is empty unless the group is stable."""

    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[DescribedMember] = ()


class ListedGroup(NamedTuple):
    """A line of the list of groups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: GroupType


class GroupService(Protocol):
    """All groups that classic clients and tools speak of.

    Besides what is told below everything may raise CoordinatorLoadInProgress, NotCoordinator, StorageError
    and (for an empty group id) InvalidGroupId.
    """

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """Join; the answer comes when the generation begins.

        Raises, at once or later:
            InvalidSessionTimeout, MemberIdRequired, GroupMaxSizeReached, InconsistentGroupProtocol,
            UnknownMemberId, FencedInstanceId, CoordinatorNotAvailable, RebalanceInProgress (a newer request
            of the same member took this one's place).
        """
        ...

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """Ask for the member's share; unless it is known the answer comes when the leader has told it.

        Raises, at once or later:
            UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol,
            RebalanceInProgress, CoordinatorNotAvailable.
        """
        ...

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """A member is alive.

        Raises:
            UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress,
            CoordinatorNotAvailable.
        """
        ...

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Members go, at once; one outcome for each, in order."""
        ...

    def describe(self, group_id: str) -> DescribedGroup:
        """A classic group.

        Raises:
            GroupIdNotFound: there is none of that id, or it is of another type.
        """
        ...

    def list(self, states: Collection[str] = (), types: Collection[str] = ()) -> Sequence[ListedGroup]:
        """Groups in one of these states and of one of these types, in any case; none named means any."""
        ...

    async def delete(self, group_ids: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete groups without members, and their offsets; for each None or why not.

        The reasons: GroupIdNotFound, NonEmptyGroup, and those that everything here may raise.
        """
        ...
