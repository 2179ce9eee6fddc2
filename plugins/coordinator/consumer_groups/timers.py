"""Timers of the members of a consumer group."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import NamedTuple
from weakref import WeakMethod

from tidelog.plugins.coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines


class Timer(StrEnum):
    """Timers of a member; the value is the text that is logged when the timer expires."""

    SESSION = "no heartbeat within its session timeout"
    REVOKE = "partitions not revoked within its rebalance timeout"
    JOIN = "no JoinGroup within its rebalance timeout"
    SYNC = "no SyncGroup within its rebalance timeout"


class Overdue(NamedTuple):
    """A member whose timer has expired."""

    member_id: str
    timer: Timer


class Timers:
    """Timers of one group's members; `expired` is called when one is overdue."""

    def __init__(self, deadlines: Deadlines, group_id: str, expired: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self._group_id = group_id
        # The group has them, and is freed at once when it is removed if nothing refers back to it.
        self._report = WeakMethod(expired)
        self._overdue: dict[tuple[str, Timer], None] = {}

    def start(self, member: ConsumerGroupMember, timer: Timer, duration_ms: int) -> None:
        """Start a member's timer, or start it again."""
        self._deadlines.schedule(*self._deadline(member, timer, duration_ms))

    def start_unless_running(self, member: ConsumerGroupMember, timer: Timer, duration_ms: int) -> None:
        """Start a member's timer, unless it runs already."""
        self._deadlines.schedule_by(*self._deadline(member, timer, duration_ms))

    def stop(self, member_id: str, timer: Timer) -> None:
        """Stop a member's timer."""
        self._overdue.pop((member_id, timer), None)
        self._deadlines.cancel((self._group_id, member_id, timer))

    def stop_all(self, member_id: str) -> None:
        """Stop all timers of a member that is removed."""
        for timer in Timer:
            self.stop(member_id, timer)

    def overdue(self) -> tuple[Overdue, ...]:
        """Return the members whose timers have expired and were neither started again nor stopped since."""
        return tuple(Overdue(*each) for each in self._overdue)

    def is_overdue(self, overdue: Overdue) -> bool:
        """Return whether this is still so."""
        return overdue in self._overdue

    def restart_session(self, member: ConsumerGroupMember, session_timeout_ms: int) -> None:
        """Extend a member's session; a member of the classic protocol has a timeout of its own."""
        classic = member.metadata.classic
        duration_ms = classic.session_timeout_ms if classic else session_timeout_ms
        deadlines, member_id = self._deadlines, member.member_id
        if self._overdue:
            self._overdue.pop((member_id, Timer.SESSION), None)
        deadlines.schedule(
            (self._group_id, member_id, Timer.SESSION),
            deadlines.now_ms() + duration_ms,
            partial(self._expired, member_id, Timer.SESSION),
        )

    def follow_revocation(self, member: ConsumerGroupMember) -> None:
        """Give a member whose assignment changed its rebalance timeout to revoke partitions, if it has to."""
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            self.start(member, Timer.REVOKE, member.metadata.rebalance_timeout_ms)
        else:
            self.stop(member.member_id, Timer.REVOKE)

    def follow_protocol(self, member: ConsumerGroupMember) -> None:
        """Stop what only members of the other protocol have, as this one may have changed its protocol."""
        if member.is_classic:
            self.stop(member.member_id, Timer.REVOKE)
            return
        self.stop(member.member_id, Timer.JOIN)
        self.stop(member.member_id, Timer.SYNC)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS:
            # As a member of the classic protocol it had none, and its assignment need not change again.
            self.start_unless_running(member, Timer.REVOKE, member.metadata.rebalance_timeout_ms)

    def _deadline(
        self, member: ConsumerGroupMember, timer: Timer, duration_ms: int
    ) -> tuple[tuple[str, str, Timer], int, Callable[[], None]]:
        self._overdue.pop((member.member_id, timer), None)
        expired = partial(self._expired, member.member_id, timer)
        key = (self._group_id, member.member_id, timer)
        return key, self._deadlines.now_ms() + max(duration_ms, 0), expired

    def _expired(self, member_id: str, timer: Timer) -> None:
        self._overdue[member_id, timer] = None
        if (report := self._report()) is not None:
            report()
