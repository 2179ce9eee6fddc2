"""How a classic group gets from one generation to the next.

Members join, until all that are known have or the time is over; a new generation begins, with a leader and a
protocol; the leader tells who does what. Whatever disturbs this begins it anew.
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

MIN_PATIENCE_MS: Final = 100
"""Between two looks at a group of absent static members, whose own rebalance timeout may be 0."""


def prepare_or_complete(group: ClassicGroup, now_ms: int) -> Write | None:
    """Somebody came, went or changed: begin a rebalance, or see whether the one under way can complete."""
    if GroupState.PREPARING_REBALANCE in FOLLOWING[group.state]:
        return prepare(group, now_ms)
    return complete_if_possible(group, now_ms)


def prepare(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin to collect members. A group that had none waits for more of them to come (KIP-134)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        take_assignments_back(
            group, RebalanceInProgress(f"group {group.group_id!r} begins another generation"), now_ms
        )
    group.pending_sync.clear()
    group.sync_deadline_ms = None
    if group.state is GroupState.EMPTY:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.initial = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.join_deadline_ms = group.wake_by(now_ms + delay_ms)
        group.become(GroupState.PREPARING_REBALANCE)
        return None
    group.become(GroupState.PREPARING_REBALANCE)
    if group.everybody_joined:
        return complete(group, now_ms)
    group.join_deadline_ms = group.wake_by(now_ms + group.rebalance_timeout_ms)
    return None


def complete_if_possible(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin the next generation if nobody is missing and the initial delay is over."""
    if group.state is GroupState.PREPARING_REBALANCE and group.initial is None:
        return complete_if_everybody_joined(group, now_ms)
    return None


def complete_if_everybody_joined(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin the next generation if nobody is missing: whoever was has gone."""
    if group.state is GroupState.PREPARING_REBALANCE and group.everybody_joined:
        return complete(group, now_ms)
    return None


def join_deadline_passed(group: ClassicGroup, now_ms: int) -> Write | None:
    """The time to join is over; the initial delay goes on while new members come."""
    initial = group.initial
    if initial is not None and initial.new_member_joined and initial.remaining_ms:
        stretch_ms = min(group.settings.initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial = InitialDelay(stretch_ms, max(initial.remaining_ms - initial.stretch_ms, 0))
        group.join_deadline_ms = group.wake_by(now_ms + stretch_ms)
        return None
    return complete(group, now_ms)


def complete(group: ClassicGroup, now_ms: int) -> Write | None:
    """Begin the next generation with those who joined.

    Dynamic members that did not are gone; static ones keep their place. If only such are left the group waits
    for them or for the end of their sessions.
    """
    group.join_deadline_ms = None
    group.initial = None
    for member in [member for member in group.members.values() if member.awaiting_join is None]:
        if not member.is_static:
            group.remove(member)
    if group.members and not _elect_leader(group):
        patience_ms = max(group.rebalance_timeout_ms, MIN_PATIENCE_MS)
        group.join_deadline_ms = group.wake_by(now_ms + patience_ms)
        return None
    group.generation += 1
    group.pending_sync.clear()
    if not group.members:
        group.protocol_name = None
        group.become(GroupState.EMPTY)
        return Write(GenerationChange.of(group))
    group.protocol_name = group.select_protocol()
    group.become(GroupState.COMPLETING_REBALANCE)
    _tell_generation(group, now_ms)
    return None


def _elect_leader(group: ClassicGroup) -> bool:
    """Let somebody lead who joined; whether anybody did."""
    if group.leader is not None and group.members[group.leader].awaiting_join is not None:
        return True
    joined = (member.member_id for member in group.members.values() if member.awaiting_join is not None)
    chosen = next(joined, None)
    if chosen is not None:
        group.leader = chosen
    return chosen is not None


def _tell_generation(group: ClassicGroup, now_ms: int) -> None:
    for member in group.members.values():
        group.answer_join(member, group.joined(member))
        group.begin_session(member, now_ms)
        member.is_new = False
    group.pending_sync.update(group.members)
    group.sync_deadline_ms = group.wake_by(now_ms + group.rebalance_timeout_ms)


def stabilize(
    group: ClassicGroup, assignments: dict[str, bytes], durable: Durable | None, now_ms: int
) -> None:
    """The leader's assignment is in the log: everybody is told its share; who has none gets an empty one."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
    for member in group.members.values():
        _answer_sync(group, member, group.synced(member), durable, now_ms)
    group.become(GroupState.STABLE)


def take_assignments_back(group: ClassicGroup, reason: BrokerError, now_ms: int) -> None:
    """The generation ends before it had an assignment; whoever waits for its share is told why."""
    for member in group.members.values():
        member.assignment = NO_ASSIGNMENT
    for member in group.members.values():
        _answer_sync(group, member, reason, None, now_ms)


def _answer_sync(
    group: ClassicGroup, member: Member, outcome: Synced | BrokerError, durable: Durable | None, now_ms: int
) -> None:
    # While it waited its session may have run out unnoticed, so that nothing would end it any more.
    if group.answer_sync(member, outcome, durable):
        group.begin_session(member, now_ms)
