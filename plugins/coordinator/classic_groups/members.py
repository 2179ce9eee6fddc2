"""Members of a classic group: who they are, which protocols they share, who leads, whose JoinGroup waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from tidelog.kernel.errors import BrokerError, FencedInstanceId, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, Synced
from tidelog.plugins.coordinator.groups.replies import Reply

NO_ASSIGNMENT = b""


class GroupAnswer(NamedTuple):
    """The outcome of a request that waits; it is set once what the group decided has been written."""

    reply: Reply[Any]
    outcome: Joined | Synced | BrokerError


@attrs.define(eq=False)
class ClassicGroupMember:
    """A member: its identity, protocols, assignment, and the requests of it that wait.

    `protocols` maps a protocol's name to the member's metadata in it, in the member's order of preference.
    `deadline_ms` is when its session ends, None while it cannot. A member is new until its first generation
    begins: it may not know its id yet and cannot send heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = NO_ASSIGNMENT
    is_new: bool = False
    deadline_ms: int | None = None
    awaiting_join: Reply[Joined] | None = None
    awaiting_sync: Reply[Synced] | None = None

    @property
    def is_static(self) -> bool:
        """Return whether the member has an instance id (KIP-345)."""
        return self.group_instance_id is not None

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that it prefers; it supports one of them."""
        return next(name for name in self.protocols if name in candidates)

    def is_overdue(self, now_ms: int) -> bool:
        """Return whether its session has ended."""
        return self.deadline_ms is not None and self.deadline_ms <= now_ms

    def is_excused(self) -> bool:
        """Return whether it need not send heartbeats: it is not new, and a request of it waits."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)


Replaced: TypeAlias = Mapping[str, ClassicGroupMember]
"""Static members whose instances are other processes from now on, by the member ids that they had."""
NONE_REPLACED: Final[Replaced] = {}


def _selected(members: Collection[ClassicGroupMember], supporters: Mapping[str, int]) -> str:
    candidates = {name for name, count in supporters.items() if count == len(members)}
    if len(candidates) == 1:
        return candidates.pop()
    votes = Counter(member.vote(candidates) for member in members)
    return votes.most_common(1)[0][0]


def by_name(protocols: Sequence[GroupProtocol]) -> dict[str, bytes]:
    """Return metadata by protocol, in order of preference; of duplicate names the first counts."""
    found: dict[str, bytes] = {}
    for protocol in protocols:
        found.setdefault(protocol.name, protocol.metadata)
    return found


class Members(Mapping[str, ClassicGroupMember]):
    """Members by id, in the order in which they came.

    Attributes:
        by_instance: ids of static members by instance id (KIP-345)
        pending: ids given to members that have yet to join with them, and until when (ms) they may
    """

    def __init__(self, group_id: str) -> None:
        self.by_instance: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        self._group_id = group_id
        self._leader: str | None = None
        self._members: dict[str, ClassicGroupMember] = {}
        self._supporters: Counter[str] = Counter()
        self._awaiting_joins = 0
        self._answers: list[GroupAnswer] = []

    def __getitem__(self, member_id: str) -> ClassicGroupMember:
        return self._members[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def check(self, member_id: str, group_instance_id: str | None) -> ClassicGroupMember:
        """Return the member of that id.

        Raises:
            FencedInstanceId: another member has taken this instance's place.
            UnknownMemberId: there is none.
        """
        if group_instance_id is not None:
            current = self.by_instance.get(group_instance_id)
            if current is not None and current != member_id:
                raise FencedInstanceId(
                    f"instance {group_instance_id!r} of group {self._group_id!r} is another member by now"
                )
            if current is None:
                raise UnknownMemberId(f"group {self._group_id!r} has no instance {group_instance_id!r}")
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self._group_id!r} has no member {member_id!r}")
        return member

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member."""
        self._members[member.member_id] = member
        if member.group_instance_id is not None:
            self.by_instance[member.group_instance_id] = member.member_id
        self._count_protocols(member)
        self.pending.pop(member.member_id, None)
        self._awaiting_joins += member.awaiting_join is not None

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member; its requests that wait are answered with UnknownMemberId."""
        if member.awaiting_join is not None or member.awaiting_sync is not None:
            gone = f"member {member.member_id!r} is no longer part of group {self._group_id!r}"
            self.answer_join(member, UnknownMemberId(gone))
            self.answer_sync(member, UnknownMemberId(gone))
        del self._members[member.member_id]
        self._forget_protocols(member)
        if member.group_instance_id is not None:
            self.by_instance.pop(member.group_instance_id, None)

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """Replace the member id of a static member, whose instance is another process now."""
        old_id = member.member_id
        leads = self.leader == old_id
        del self._members[old_id]
        member.member_id = member_id
        self._members[member_id] = member
        if member.group_instance_id is not None:
            self.by_instance[member.group_instance_id] = member_id
        if leads:
            self.leader = member_id

    @property
    def leader(self) -> str | None:
        """The id of the member that assigns the partitions: the first one unless another was chosen.

        None without members. It is looked for when it is asked for: many members may leave at once.
        """
        if self._leader not in self._members:
            self._leader = next(iter(self._members), None)
        return self._leader

    @leader.setter
    def leader(self, member_id: str) -> None:
        self._leader = member_id

    def elect_leader(self) -> bool:
        """Choose a leader among the members that joined; return whether there is one."""
        leader = self.leader
        if leader is not None and self._members[leader].awaiting_join is not None:
            return True
        joined = (member for member in self._members.values() if member.awaiting_join is not None)
        chosen = next(joined, None)
        if chosen is not None:
            self.leader = chosen.member_id
        return chosen is not None

    def set_protocols(self, member: ClassicGroupMember, protocols: Mapping[str, bytes]) -> None:
        """Replace the protocols of a member, and its metadata in them."""
        self._forget_protocols(member)
        member.protocols = protocols
        self._count_protocols(member)

    def _count_protocols(self, member: ClassicGroupMember) -> None:
        for name in member.protocols:
            self._supporters[name] += 1

    def _forget_protocols(self, member: ClassicGroupMember) -> None:
        supporters = self._supporters
        for name in member.protocols:
            supporters[name] -= 1
            if not supporters[name]:
                del supporters[name]

    def all_support_one_of(self, protocols: Collection[str]) -> bool:
        """Return whether all members support one of these protocols."""
        return any(self._supporters[name] == len(self._members) for name in protocols)

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, out of those that all support; there is a member."""
        return _selected(self._members.values(), self._supporters)

    def select_protocol_with(self, replaced: Replaced) -> str:
        """Return what `select_protocol` returns once members are replaced by others."""
        members = self.all_with(replaced)
        return _selected(members, Counter(name for member in members for name in member.protocols))

    def all_with(self, replaced: Replaced) -> tuple[ClassicGroupMember, ...]:
        """Return all members once some are replaced, in the order in which they are then."""
        if not replaced:
            return tuple(self._members.values())
        stay = (member for member_id, member in self._members.items() if member_id not in replaced)
        return (*stay, *replaced.values())

    @property
    def awaiting_joins(self) -> int:
        """Return how many members wait for the answer to their JoinGroup."""
        return self._awaiting_joins

    @property
    def all_joined(self) -> bool:
        """Return whether all members have joined, and none is expected."""
        return self._awaiting_joins == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def await_join(self, member: ClassicGroupMember, reply: Reply[Joined]) -> None:
        """Let a member that rejoins wait for the next generation; none of its requests waits for it yet."""
        member.awaiting_join = reply
        self._awaiting_joins += 1

    def answer(self, reply: Reply[Any], outcome: Joined | Synced | BrokerError) -> None:
        """Note the outcome of a request; see `take_answers`."""
        self._answers.append(GroupAnswer(reply, outcome))

    def take_answers(self) -> Sequence[GroupAnswer]:
        """Return all outcomes since the last time: a state machine sets no reply itself."""
        answers, self._answers = self._answers, []
        return answers

    def answer_join(self, member: ClassicGroupMember, outcome: Joined | BrokerError) -> None:
        """Answer the JoinGroup request of a member, if one waits."""
        reply, member.awaiting_join = member.awaiting_join, None
        if reply is not None:
            self._awaiting_joins -= 1
            self.answer(reply, outcome)

    def answer_sync(self, member: ClassicGroupMember, outcome: Synced | BrokerError) -> bool:
        """Answer the SyncGroup request of a member, if one waits; return whether one did."""
        reply, member.awaiting_sync = member.awaiting_sync, None
        if reply is None:
            return False
        self.answer(reply, outcome)
        return True

    def answer_all(self, reason: BrokerError) -> None:
        """Answer every request that waits with an error."""
        for member in self._members.values():
            self.answer_join(member, reason)
            self.answer_sync(member, reason)
