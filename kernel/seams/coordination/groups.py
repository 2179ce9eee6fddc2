"""Groups of the classic protocol: joining, syncing, heartbeats, leaving, and what tools ask about groups.

Source: Kafka protocol guide, the groups' messages; KIP-62 (rebalance timeout), KIP-134
(initial delay), KIP-345 (static members), KIP-394 (member ids), KIP-518 and KIP-848 (filters), KIP-814
(static leaders).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import attrs

from tidelog.kernel.errors import BrokerError

NO_GENERATION = -1
NO_MEMBER_ID = ""

GroupType = Literal["classic", "consumer"]


class GroupProtocol(NamedTuple):
    """An assignment protocol that a member supports, with its opaque metadata for it."""

    name: str
    metadata: bytes


@attrs.frozen
class JoinRequest:
    """A member that joins or rejoins.

    `protocols` are in the member's order of preference. With `knows_member_id_required` a new dynamic member
    only gets an id and has to join again with it (KIP-394); with `knows_skip_assignment` a static leader that
    rejoins can be answered that the assignment is unchanged (KIP-814).
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
    """A member as the leader sees it: its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """A new generation. Only its leader gets `members`; with `skip_assignment` it does not assign."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class Assignment(NamedTuple):
    """A member's assignment by the leader (opaque)."""

    member_id: str
    assignment: bytes


@attrs.frozen
class SyncRequest:
    """A request for a member's assignment; the leader's request has the assignments of all members.

    Protocol type and name are None in versions without these fields.
    """

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[Assignment] = ()


class Synced(NamedTuple):
    """A member's assignment in the generation."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class LeavingMember(NamedTuple):
    """A member that leaves; a static one may be named by its instance id alone, with an empty member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveOutcome(NamedTuple):
    """The result for one leaving member: `error` is None, UnknownMemberId or FencedInstanceId."""

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
    """A group as tools see it; the protocol is empty unless the group is stable.

    There may be very many members: callers iterate over them in steps, as each may be made only then.
    """

    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[DescribedMember] = ()


class ListedGroup(NamedTuple):
    """A group in the list of groups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: GroupType


class GroupService(Protocol):
    """All groups, as clients of the classic protocol and tools use them.

    Besides the errors below all methods may raise CoordinatorLoadInProgress, NotCoordinator, StorageError and
    (for an empty group id) InvalidGroupId.
    """

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """Join; the answer comes when the generation begins.

        Raises, at once or later:
            InvalidSessionTimeout, MemberIdRequired, GroupMaxSizeReached, InconsistentGroupProtocol,
            UnknownMemberId, FencedInstanceId, CoordinatorNotAvailable, RebalanceInProgress (a newer request
            of the same member replaced this one).
        """
        ...

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """Return the member's assignment, once the leader has sent it.

        Raises, at once or later:
            UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol,
            RebalanceInProgress, CoordinatorNotAvailable.
        """
        ...

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """Renew a member's session.

        Raises:
            UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress,
            CoordinatorNotAvailable.
        """
        ...

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Remove members at once; return one outcome for each, in order."""
        ...

    def describe(self, group_id: str) -> DescribedGroup:
        """Describe a classic group.

        Raises:
            GroupIdNotFound: there is none of that id, or it is of another type.
        """
        ...

    def list(self) -> Iterator[ListedGroup]:
        """Iterate over all groups.

        The caller may let other tasks run in between; errors are raised before the first group.
        """
        ...

    async def delete(self, group_ids: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete groups without members, and their offsets; return None or the error for each.

        The errors are GroupIdNotFound, NonEmptyGroup, and those that all methods may raise.
        """
        ...
