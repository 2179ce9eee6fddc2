"""State machine of a classic group: from one generation to the next. No socket, no clock, no log.

Members join until all known ones have, or until the rebalance timeout; the new generation begins, with a
leader and a protocol; the leader sends the assignment. Any change of members begins another rebalance.

The requests of members are in `machine`. Times are milliseconds of one clock that never goes back, given by
the caller. An event leads to a `ClassicDecision`: what the log has to have, which the caller writes at once,
and the answers to requests, which it hands out then. Whether the log accepted or refused is the next event.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import Joined, JoinedMember, Synced
from tidelog.plugins.coordinator.classic_groups.members import (
    NO_ASSIGNMENT,
    NONE_REPLACED,
    ClassicGroupMember,
    GroupAnswer,
    Members,
    Replaced,
)
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.classic_groups.states import FOLLOWING, GroupState

MIN_ABSENCE_MS: Final = 100
"""The shortest time between two checks of a group whose static members are all absent."""


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


@attrs.frozen(kw_only=True)
class GenerationWrite(ABC):
    """A generation that the log has to have; the outcome is the next event of the group.

    Attributes:
        assignments: those to write by member id, None for the present ones
        replaced: the members to write instead of others
    """

    assignments: Mapping[str, bytes] | None = None
    replaced: Replaced = NONE_REPLACED

    @abstractmethod
    def appended(self, group: ClassicGroup, now_ms: int) -> None:
        """Continue with the record in the log; answers to that wait until it may be acknowledged."""

    @abstractmethod
    def refused(self, group: ClassicGroup, error: BrokerError, now_ms: int) -> None:
        """Continue without the record."""


@attrs.frozen
class EmptyGeneration(GenerationWrite):
    """The generation of a group that has lost its last member.

    The group is empty whether or not the log has that: the members are gone, and have had their answers. An
    older generation may be loaded at the next start; it ends with its members' sessions.
    """

    def appended(self, group: ClassicGroup, now_ms: int) -> None:
        """Do nothing: no request waits."""

    def refused(self, group: ClassicGroup, error: BrokerError, now_ms: int) -> None:
        """Do nothing: no request waits."""


class ClassicDecision(NamedTuple):
    """What an event leads to: a generation to write, None for none, and the outcomes of requests."""

    write: GenerationWrite | None
    answers: Sequence[GroupAnswer]


class ClassicGroup:
    """State of one group.

    Attributes:
        members: its members
        pending_sync: ids of members of this generation that have not sent SyncGroup yet
        timer_ms: the earliest time at which a deadline may pass
    """

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members(group_id)
        self.timer_ms: float = math.inf
        self.pending_sync: set[str] = set()
        self._initial: InitialDelay | None = None
        self._join_deadline_ms: int | None = None
        self._sync_deadline_ms: int | None = None

    def become(self, state: GroupState) -> None:
        """Change the state to one that may follow the present one."""
        if state not in FOLLOWING[self.state]:
            raise AssertionError(f"group {self.group_id!r} cannot go from {self.state} to {state}")
        self.state = state

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
            self.members.leader = leader

    def decided(self, write: GenerationWrite | None = None) -> ClassicDecision:
        """Return the decision to write that, with the answers since the last one."""
        return ClassicDecision(write, self.members.take_answers())

    def end(self, reason: BrokerError) -> ClassicDecision:
        """End the group: every request that waits is answered with `reason`."""
        if self.state is not GroupState.DEAD:
            self.become(GroupState.DEAD)
            self.members.answer_all(reason)
        return self.decided()

    def check_alive(self) -> None:
        """Check that the group has not ended.

        Raises:
            CoordinatorNotAvailable: it has.
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"group {self.group_id!r} has just been removed")

    def check_member(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> ClassicGroupMember:
        """Return the member of that id; check that it is in the group's generation.

        Raises:
            FencedInstanceId, UnknownMemberId: see `Members.check`.
            IllegalGeneration: the group is in another generation.
        """
        member = self.members.check(member_id, group_instance_id)
        if generation != self.generation:
            raise IllegalGeneration(
                f"group {self.group_id!r} is in generation {self.generation}, not {generation}"
            )
        return member

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Return whether a member with these protocols may join: it shares one with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and self.members.all_support_one_of(protocols)

    def heartbeat_received(
        self, member_id: str, generation: int, group_instance_id: str | None, now_ms: int
    ) -> None:
        """Extend a member's session.

        Raises:
            BrokerError: see `GroupService.heartbeat`; with RebalanceInProgress the session is extended too.
        """
        self.check_alive()
        member = self.check_member(member_id, group_instance_id, generation)
        if self.state is GroupState.EMPTY:
            raise UnknownMemberId(f"group {self.group_id!r} has no members")
        self.extend_session(member, now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {self.group_id!r} begins another generation")

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        if self._initial is not None:
            self._initial.new_member_joined = True
        self.members.add(member)

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member; its requests that wait are answered with UnknownMemberId."""
        self.members.remove(member)
        self.pending_sync.discard(member.member_id)

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """Replace the member id of a static member, whose instance is another process now."""
        if member.member_id in self.pending_sync:
            self.pending_sync.remove(member.member_id)
            self.pending_sync.add(member_id)
        self.members.rename(member, member_id)

    def expect(self, member_id: str, until_ms: int) -> None:
        """Wait until then for a new member to join with the id that it was given."""
        self.members.pending[member_id] = self._fire_by(until_ms)

    def sync_received(self, member: ClassicGroupMember) -> None:
        """Wait no more for the SyncGroup of a member in this generation."""
        self.pending_sync.discard(member.member_id)
        if not self.pending_sync:
            self._sync_deadline_ms = None

    def joined(self, member: ClassicGroupMember, *, skip_assignment: bool = False) -> Joined:
        """Return the answer to a member's JoinGroup; the one to the leader lists the members."""
        leader = self.members.leader or ""
        return Joined(
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            leader,
            self._member_list() if member.member_id == leader else (),
            skip_assignment,
        )

    def _member_list(self) -> list[JoinedMember]:
        name = self.protocol_name or ""
        return [
            JoinedMember(member.member_id, member.group_instance_id, member.protocols.get(name, b""))
            for member in self.members.values()
        ]

    def synced(self, member: ClassicGroupMember) -> Synced:
        """Return the answer to a member's SyncGroup."""
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def snapshot(self) -> object:
        """Return what is equal to a later snapshot if neither the generation nor its members have changed."""
        members = [(each.member_id, each.protocols, each.assignment) for each in self.members.values()]
        return self.state, self.generation, self.protocol_name, members

    def metadata_of(self, member: ClassicGroupMember) -> bytes:
        """Return a member's metadata in the group's protocol, empty without one."""
        return member.protocols.get(self.protocol_name or "", b"")

    # Rebalances

    def prepare_or_complete(self, now_ms: int) -> GenerationWrite | None:
        """Begin a rebalance after a change of members, or complete the one under way if that is possible."""
        if GroupState.PREPARING_REBALANCE in FOLLOWING[self.state]:
            return self.prepare(now_ms)
        return self.complete_if_possible(now_ms)

    def prepare(self, now_ms: int) -> GenerationWrite | None:
        """Begin a rebalance. A group that had no members waits for further ones (KIP-134)."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.clear_assignments(
                RebalanceInProgress(f"group {self.group_id!r} begins another generation"), now_ms
            )
        self.pending_sync.clear()
        self._sync_deadline_ms = None
        if self.state is GroupState.EMPTY:
            delay_ms = self.settings.initial_rebalance_delay_ms
            remaining_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
            self._initial = InitialDelay(delay_ms, remaining_ms)
            self._join_deadline_ms = self._fire_by(now_ms + delay_ms)
            self.become(GroupState.PREPARING_REBALANCE)
            return None
        self.become(GroupState.PREPARING_REBALANCE)
        if self.members.all_joined:
            return self._complete(now_ms)
        self._join_deadline_ms = self._fire_by(now_ms + self.members.rebalance_timeout_ms)
        return None

    def complete_if_possible(self, now_ms: int) -> GenerationWrite | None:
        """Begin the next generation if all members have joined and the initial delay is over."""
        return self.complete_if_all_joined(now_ms) if self._initial is None else None

    def complete_if_all_joined(self, now_ms: int) -> GenerationWrite | None:
        """Begin the next generation if all members have joined, whether or not the initial delay is over."""
        if self.state is GroupState.PREPARING_REBALANCE and self.members.all_joined:
            return self._complete(now_ms)
        return None

    def _complete(self, now_ms: int) -> GenerationWrite | None:
        """Begin the next generation with the members that joined.

        Other dynamic members are removed; static ones stay. If only static members that did not join are
        left, the group waits for them or for the end of their sessions.
        """
        self._join_deadline_ms = None
        self._initial = None
        for member in [member for member in self.members.values() if member.awaiting_join is None]:
            if not member.is_static:
                self.remove(member)
        if self.members and not self.members.elect_leader():
            absence_ms = max(self.members.rebalance_timeout_ms, MIN_ABSENCE_MS)
            self._join_deadline_ms = self._fire_by(now_ms + absence_ms)
            return None
        self.generation += 1
        self.pending_sync.clear()
        if not self.members:
            self.protocol_name = None
            self.become(GroupState.EMPTY)
            return EmptyGeneration()
        self.protocol_name = self.members.select_protocol()
        self.become(GroupState.COMPLETING_REBALANCE)
        self._start_generation(now_ms)
        return None

    def _start_generation(self, now_ms: int) -> None:
        for member in self.members.values():
            self.members.answer_join(member, self.joined(member))
            self.extend_session(member, now_ms)
            member.is_new = False
        self.pending_sync.update(self.members)
        self._sync_deadline_ms = self._fire_by(now_ms + self.members.rebalance_timeout_ms)

    def stabilize(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """Send each member its assignment, empty without one: the leader's assignment is in the log."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        for member in self.members.values():
            self._answer_sync(member, self.synced(member), now_ms)
        self.become(GroupState.STABLE)

    def clear_assignments(self, reason: BrokerError, now_ms: int) -> None:
        """End a generation that has no assignment yet; members that wait for theirs get `reason`."""
        for member in self.members.values():
            member.assignment = NO_ASSIGNMENT
        for member in self.members.values():
            self._answer_sync(member, reason, now_ms)

    def _answer_sync(self, member: ClassicGroupMember, outcome: Synced | BrokerError, now_ms: int) -> None:
        # Its session may have expired while it waited, which is not noticed then and would never be.
        if self.members.answer_sync(member, outcome):
            self.extend_session(member, now_ms)

    # Deadlines

    def extend_session(self, member: ClassicGroupMember, now_ms: int) -> None:
        """Extend a member's session: it ends its session timeout after `now_ms`."""
        member.deadline_ms = self._fire_by(now_ms + member.session_timeout_ms)

    def start_sessions(self, now_ms: int, *, rebalance: bool) -> ClassicDecision:
        """Start the sessions of all members of a group that was loaded or changed its protocol.

        One that is too large rebalances in any case: its members can commit before some are rejected.
        """
        for member in self.members.values():
            self.extend_session(member, now_ms)
        if self.members and (rebalance or len(self.members) > self.settings.max_size):
            return self.decided(self.prepare(now_ms))
        return self.decided()

    def await_first_generation(self, member: ClassicGroupMember, until_ms: int) -> None:
        """Give a new member until then for its first generation; it sends no heartbeats before."""
        member.deadline_ms = self._fire_by(until_ms)

    def handle_deadlines(self, now_ms: int) -> ClassicDecision:
        """Handle all deadlines that have passed, and compute the next one.

        There is never more than one change to write: the last member was removed.
        """
        write: GenerationWrite | None = None
        pending = self.members.pending
        for member_id in [member_id for member_id, until_ms in pending.items() if until_ms <= now_ms]:
            del pending[member_id]
            write = self.complete_if_all_joined(now_ms) or write
        for member in [member for member in self.members.values() if member.is_overdue(now_ms)]:
            write = self._session_over(member, now_ms) or write
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            write = self._join_deadline_passed(now_ms) or write
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            write = self._sync_deadline_passed(now_ms) or write
        self.timer_ms = min(self.deadlines(), default=math.inf)
        return self.decided(write)

    def deadlines(self) -> Iterable[int]:
        """Return all times at which the timer has to fire."""
        for member in self.members.values():
            if member.deadline_ms is not None:
                yield member.deadline_ms
        yield from self.members.pending.values()
        for deadline_ms in (self._join_deadline_ms, self._sync_deadline_ms):
            if deadline_ms is not None:
                yield deadline_ms

    def _fire_by(self, at_ms: int) -> int:
        """Have the group's timer fire at that time at the latest; return the time."""
        if at_ms < self.timer_ms:
            self.timer_ms = at_ms
        return at_ms

    def _session_over(self, member: ClassicGroupMember, now_ms: int) -> GenerationWrite | None:
        if self.members.get(member.member_id) is not member or not member.is_overdue(now_ms):
            # Handling another member's deadline has changed this one's.
            return None
        if member.is_excused():
            member.deadline_ms = None
            return None
        self.remove(member)
        if self.state is GroupState.PREPARING_REBALANCE:
            return self.complete_if_all_joined(now_ms)
        return self.prepare(now_ms)

    def _join_deadline_passed(self, now_ms: int) -> GenerationWrite | None:
        """Begin the next generation, or extend the initial delay."""
        initial = self._initial
        if initial is not None and initial.new_member_joined and initial.remaining_ms:
            stretch_ms = min(self.settings.initial_rebalance_delay_ms, initial.remaining_ms)
            self._initial = InitialDelay(stretch_ms, max(initial.remaining_ms - initial.stretch_ms, 0))
            self._join_deadline_ms = self._fire_by(now_ms + stretch_ms)
            return None
        return self._complete(now_ms)

    def _sync_deadline_passed(self, now_ms: int) -> GenerationWrite | None:
        """Remove the members that joined the generation and sent no SyncGroup."""
        self._sync_deadline_ms = None
        missing = [self.members[member_id] for member_id in self.pending_sync if member_id in self.members]
        for member in missing:
            self.remove(member)
        return self.prepare(now_ms) if missing else None
