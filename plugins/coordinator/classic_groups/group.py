"""State of a classic group, and what holds in each of its states. No socket, no clock, no log.

What it does when it is asked is in `joining`, `syncing`, `leaving` and `sessions`; how a generation comes
about is in `rebalance`. Times are milliseconds of one clock that never goes back, given by the caller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import attrs

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import Joined, JoinedMember, Synced
from tidelog.plugins.coordinator.classic_groups.member import Member
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.classic_groups.states import FOLLOWING, GroupState
from tidelog.plugins.coordinator.groups.replies import Durable


@attrs.define
class InitialDelay:
    """The delay before a group's first generation (KIP-134).

    Attributes:
        stretch_ms: how long the present part of it is
        remaining_ms: what may still be added
        new_member_joined: whether a member joined in the present part
    """

    stretch_ms: int
    remaining_ms: int
    new_member_joined: bool = False


class ClassicGroup:
    """State of one group.

    Attributes:
        members: in the order in which they came
        static_members: member id by instance id
        pending: ids given to members that have yet to join with them, and until when they may
        pending_sync: members of this generation that have not sent SyncGroup yet
        timer_ms: the earliest time at which a deadline may pass
    """

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        self.pending_sync: set[str] = set()
        self.initial: InitialDelay | None = None
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.timer_ms: float = math.inf
        self.awaiting_joins = 0
        self._supporters: Counter[str] = Counter()

    def become(self, state: GroupState) -> None:
        """Change the state to one that may follow the present one."""
        if state not in FOLLOWING[self.state]:
            raise AssertionError(f"group {self.group_id!r} cannot go from {self.state} to {state}")
        self.state = state

    def fire_by(self, at_ms: int) -> int:
        """Have the group's timer fire at that time at the latest; return the time."""
        if at_ms < self.timer_ms:
            self.timer_ms = at_ms
        return at_ms

    def extend_session(self, member: Member, now_ms: int) -> None:
        """Extend a member's session: it ends its session timeout after `now_ms`."""
        deadline_ms = member.deadline_ms = now_ms + member.session_timeout_ms
        if deadline_ms < self.timer_ms:
            self.timer_ms = deadline_ms

    def heartbeat(self, member_id: str, generation: int, group_instance_id: str | None, now_ms: int) -> None:
        """Extend a member's session.

        Raises:
            BrokerError: see `GroupService.heartbeat`; with RebalanceInProgress the session is extended too.
        """
        state = self.state
        if state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"group {self.group_id!r} has just been removed")
        member = self.check_member(member_id, group_instance_id, generation)
        if state is GroupState.EMPTY:
            raise UnknownMemberId(f"group {self.group_id!r} has no members")
        self.extend_session(member, now_ms)
        if state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {self.group_id!r} begins another generation")

    def check_member(
        self, member_id: str, group_instance_id: str | None, generation: int | None = None
    ) -> Member:
        """Return the member of that id; with `generation` also check that it is the current one.

        Raises:
            FencedInstanceId: another member has taken this instance's place.
            UnknownMemberId: there is none.
            IllegalGeneration: the group is in another generation.
        """
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is not None and current != member_id:
                raise FencedInstanceId(
                    f"instance {group_instance_id!r} of group {self.group_id!r} is another member by now"
                )
            if current is None:
                raise UnknownMemberId(f"group {self.group_id!r} has no instance {group_instance_id!r}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self.group_id!r} has no member {member_id!r}")
        if generation is not None and generation != self.generation:
            raise IllegalGeneration(
                f"group {self.group_id!r} is in generation {self.generation}, not {generation}"
            )
        return member

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a member with these protocols may join: it shares one with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        all_members = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == all_members for name in names
        )

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, out of those that all support; there is a member."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type, and is the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._supporters.update(member.protocols.keys())
        self.pending.pop(member.member_id, None)

    def restore(
        self, generation: int, protocol_type: str | None, protocol_name: str | None, leader: str | None = None
    ) -> None:
        """Continue with the members that were added, in a generation that has its assignment."""
        if self.members:
            self.state = GroupState.STABLE
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        if leader is not None and leader in self.members:
            self.leader = leader

    def remove(self, member: Member) -> None:
        """Remove a member; its requests that wait are answered with UnknownMemberId."""
        gone = UnknownMemberId(f"member {member.member_id!r} is not part of group {self.group_id!r} any more")
        self.answer_join(member, gone)
        self.answer_sync(member, gone)
        del self.members[member.member_id]
        self._forget_protocols(member)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def rename(self, member: Member, member_id: str) -> None:
        """Replace the member id of a static member, whose instance is another process now."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)

    def set_protocols(self, member: Member, protocols: Mapping[str, bytes]) -> None:
        """Replace the protocols of a member, and its metadata in them."""
        self._forget_protocols(member)
        member.protocols = protocols
        self._supporters.update(protocols.keys())

    def _forget_protocols(self, member: Member) -> None:
        self._supporters.subtract(member.protocols.keys())
        for name in member.protocols:
            if not self._supporters[name]:
                del self._supporters[name]

    def answer_join(
        self, member: Member, outcome: Joined | BrokerError, durable: Durable | None = None
    ) -> None:
        """Answer the JoinGroup request of a member, if one waits."""
        reply, member.awaiting_join = member.awaiting_join, None
        if reply is not None:
            self.awaiting_joins -= 1
            reply.set(outcome, durable)

    def answer_sync(
        self, member: Member, outcome: Synced | BrokerError, durable: Durable | None = None
    ) -> bool:
        """Answer the SyncGroup request of a member, if one waits; return whether one did."""
        reply, member.awaiting_sync = member.awaiting_sync, None
        if reply is None:
            return False
        reply.set(outcome, durable)
        return True

    @property
    def all_joined(self) -> bool:
        """Return whether all members have joined, and none is expected."""
        return self.awaiting_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """Return the answer to a member's JoinGroup; the one to the leader lists the members."""
        leads = member.member_id == self.leader
        return Joined(
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            self.member_list() if leads else (),
            skip_assignment,
        )

    def synced(self, member: Member) -> Synced:
        """Return the answer to a member's SyncGroup."""
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def member_list(self) -> list[JoinedMember]:
        """Return the members as the leader gets them."""
        return [
            JoinedMember(member.member_id, member.group_instance_id, self.metadata_of(member))
            for member in self.members.values()
        ]

    def metadata_of(self, member: Member) -> bytes:
        """Return a member's metadata in the group's protocol, empty without one."""
        return member.protocols.get(self.protocol_name or "", b"")

    def deadlines(self) -> Iterable[int]:
        """Return all times at which the timer has to fire."""
        for member in self.members.values():
            if member.deadline_ms is not None:
                yield member.deadline_ms
        yield from self.pending.values()
        for deadline in (self.join_deadline_ms, self.sync_deadline_ms):
            if deadline is not None:
                yield deadline
