"""A classic group: what is known of it, and what holds in every state. No socket, no clock, no log.

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
    """The wait before a group's first generation: how long this stretch of it is, what may be added to it,
    and whether somebody new came in this stretch."""

    stretch_ms: int
    remaining_ms: int
    new_member_joined: bool = False


class ClassicGroup:
    """One group.

    Attributes:
        members: in the order in which they came
        static_members: member id by instance id
        pending: ids given to members that have yet to join with them, and until when they may
        pending_sync: members of this generation that have yet to ask for their share
        alarm_ms: nothing happens by itself before this time
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
        self.alarm_ms: float = math.inf
        self.awaiting_joins = 0
        self._supporters: Counter[str] = Counter()

    def become(self, state: GroupState) -> None:
        """Change the state."""
        if state not in FOLLOWING[self.state]:
            raise AssertionError(f"group {self.group_id!r} cannot go from {self.state} to {state}")
        self.state = state

    def wake_by(self, at_ms: int) -> int:
        """Have the group's timer fire at that time at the latest; return the time."""
        if at_ms < self.alarm_ms:
            self.alarm_ms = at_ms
        return at_ms

    def begin_session(self, member: Member, now_ms: int) -> None:
        """Extend a member's session: it ends its session timeout after `now_ms`."""
        deadline_ms = member.deadline_ms = now_ms + member.session_timeout_ms
        if deadline_ms < self.alarm_ms:
            self.alarm_ms = deadline_ms

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
        self.begin_session(member, now_ms)
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
        """Whether a member of this kind fits in: it shares a protocol with everybody who is there."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == everybody for name in names
        )

    def select_protocol(self) -> str:
        """The protocol that most members vote for, out of those that all support; there is a member."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in; the first one says what type the group is of, and leads it."""
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
        """Let a member go; who waits for it is told UnknownMemberId."""
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
        """Give a static member another id, and with it to another process."""
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
        """A member knows other protocols now, or says other things about itself."""
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
        """Answer a member that waits for the next generation; nothing if it does not."""
        reply, member.awaiting_join = member.awaiting_join, None
        if reply is not None:
            self.awaiting_joins -= 1
            reply.set(outcome, durable)

    def answer_sync(
        self, member: Member, outcome: Synced | BrokerError, durable: Durable | None = None
    ) -> bool:
        """Answer a member that waits for its share; whether it did."""
        reply, member.awaiting_sync = member.awaiting_sync, None
        if reply is None:
            return False
        reply.set(outcome, durable)
        return True

    @property
    def everybody_joined(self) -> bool:
        """Whether the next generation need not wait for anybody."""
        return self.awaiting_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members may take to join again: what the most patient one says."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """What a member is told of the current generation; the leader is told who is in it."""
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
        """What a member is told of its share."""
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def member_list(self) -> list[JoinedMember]:
        """The members, for their leader."""
        return [
            JoinedMember(member.member_id, member.group_instance_id, self.metadata_of(member))
            for member in self.members.values()
        ]

    def metadata_of(self, member: Member) -> bytes:
        """What a member says about itself in the group's protocol."""
        return member.protocols.get(self.protocol_name or "", b"")

    def deadlines(self) -> Iterable[int]:
        """All times at which something is to happen by itself."""
        for member in self.members.values():
            if member.deadline_ms is not None:
                yield member.deadline_ms
        yield from self.pending.values()
        for deadline in (self.join_deadline_ms, self.sync_deadline_ms):
            if deadline is not None:
                yield deadline
