"""Rebalances of a classic group: from one generation to the next.

Members join until all known ones have, or until the rebalance timeout; the new generation begins, with a
leader and a protocol; the leader sends the assignment. Any change of members begins another rebalance.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernel.errors import BrokerError, RebalanceInProgress
from tidelog.kernel.seams.coordination.groups import Synced
from tidelog.plugins.coordinator.classic_groups.changes import GenerationChange, Write
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup, InitialDelay
from tidelog.plugins.coordinator.classic_groups.member import NO_ASSIGNMENT, Member
from tidelog.plugins.coordinator.classic_groups.states import FOLLOWING, GroupState
from tidelog.plugins.coordinator.groups.replies import Durable

MIN_ABSENCE_MS: Final = 100
"""The shortest time between two checks of a group whose static members are all absent."""


def prepare_or_complete(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin a rebalance after a change of members, or complete the one under way if that is possible."""
    if GroupState.PREPARING_REBALANCE in FOLLOWING[group.state]:
        return prepare(group, now_ms)
    return complete_if_possible(group, now_ms)


def prepare(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin a rebalance. A group that had no members waits for further ones (KIP-134)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        clear_assignments(
            group, RebalanceInProgress(f"group {group.group_id!r} begins another generation"), now_ms
        )
    group.pending_sync.clear()
    group.sync_deadline_ms = None
    if group.state is GroupState.EMPTY:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.initial = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.join_deadline_ms = group.fire_by(now_ms + delay_ms)
        group.become(GroupState.PREPARING_REBALANCE)
        return None
    group.become(GroupState.PREPARING_REBALANCE)
    if group.all_joined:
        return complete(group, now_ms)
    group.join_deadline_ms = group.fire_by(now_ms + group.rebalance_timeout_ms)
    return None


def complete_if_possible(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin the next generation if all members have joined and the initial delay is over."""
    if group.state is GroupState.PREPARING_REBALANCE and group.initial is None:
        return complete_if_all_joined(group, now_ms)
    return None


def complete_if_all_joined(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin the next generation if all members have joined, whether or not the initial delay is over."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        return complete(group, now_ms)
    return None


def join_deadline_passed(group: ClassicGroup, now_ms: int) -> Write | None:
    """Handle the deadline to join: begin the next generation, or extend the initial delay."""
    initial = group.initial
    if initial is not None and initial.new_member_joined and initial.remaining_ms:
        stretch_ms = min(group.settings.initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial = InitialDelay(stretch_ms, max(initial.remaining_ms - initial.stretch_ms, 0))
        group.join_deadline_ms = group.fire_by(now_ms + stretch_ms)
        return None
    return complete(group, now_ms)


def complete(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin the next generation with the members that joined.

    Other dynamic members are removed; static ones stay. If only static members that did not join are left,
    the group waits for them or for the end of their sessions.
    """
    group.join_deadline_ms = None
    group.initial = None
    for member in [member for member in group.members.values() if member.awaiting_join is None]:
        if not member.is_static:
            group.remove(member)
    if group.members and not _elect_leader(group):
        absence_ms = max(group.rebalance_timeout_ms, MIN_ABSENCE_MS)
        group.join_deadline_ms = group.fire_by(now_ms + absence_ms)
        return None
    group.generation += 1
    group.pending_sync.clear()
    if not group.members:
        group.protocol_name = None
        group.become(GroupState.EMPTY)
        return Write(GenerationChange.of(group))
    group.protocol_name = group.select_protocol()
    group.become(GroupState.COMPLETING_REBALANCE)
    _start_generation(group, now_ms)
    return None


def _elect_leader(group: ClassicGroup) -> bool:
    """Choose a leader among the members that joined; return whether there is one."""
    if group.leader is not None and group.members[group.leader].awaiting_join is not None:
        return True
    joined = (member.member_id for member in group.members.values() if member.awaiting_join is not None)
    chosen = next(joined, None)
    if chosen is not None:
        group.leader = chosen
    return chosen is not None


def _start_generation(group: ClassicGroup, now_ms: int) -> None:
    for member in group.members.values():
        group.answer_join(member, group.joined(member))
        group.extend_session(member, now_ms)
        member.is_new = False
    group.pending_sync.update(group.members)
    group.sync_deadline_ms = group.fire_by(now_ms + group.rebalance_timeout_ms)


def stabilize(
    group: ClassicGroup, assignments: dict[str, bytes], durable: Durable | None, now_ms: int
) -> None:
    """Send each member its assignment, empty without one: the leader's assignment is in the log."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
    for member in group.members.values():
        _answer_sync(group, member, group.synced(member), durable, now_ms)
    group.become(GroupState.STABLE)


def clear_assignments(group: ClassicGroup, reason: BrokerError, now_ms: int) -> None:
    """End a generation that has no assignment yet; members that wait for theirs get `reason`."""
    for member in group.members.values():
        member.assignment = NO_ASSIGNMENT
    for member in group.members.values():
        _answer_sync(group, member, reason, None, now_ms)


def _answer_sync(
    group: ClassicGroup, member: Member, outcome: Synced | BrokerError, durable: Durable | None, now_ms: int
) -> None:
    # Its session may have expired while it waited, which is not noticed then and would never be.
    if group.answer_sync(member, outcome, durable):
        group.extend_session(member, now_ms)
