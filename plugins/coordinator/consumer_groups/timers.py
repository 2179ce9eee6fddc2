"""The times that members of consumer groups have, on the coordinators' one heap of deadlines."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TypeAlias

from tidelog.plugins.coordinator.consumer_groups.member import Member, MemberState
from tidelog.plugins.coordinator.deadlines import Deadlines


class Timer(Enum):
    """What a member has to do in time; the value is said of one that did not."""

    SESSION = "it was not heard of for its session timeout"
    REVOKE = "it did not give partitions up within its rebalance timeout"
    JOIN = "it did not join again within its rebalance timeout"
    SYNC = "it did not ask for its partitions within its rebalance timeout"


Expired: TypeAlias = Callable[[str, str, Timer, int], None]
"""Called with group id, member id, what was not done, and the epoch that it was to be done in."""


class Timers:
    """Deadlines of members; `expired` is called once for each that passes.

    `session_timeout_ms` is for members of the consumer protocol; classic ones bring theirs.
    """

    def __init__(self, deadlines: Deadlines, session_timeout_ms: int, expired: Expired) -> None:
        self._deadlines = deadlines
        self._session_timeout_ms = session_timeout_ms
        self._expired = expired

    def start(self, group_id: str, member: Member, timer: Timer, duration_ms: int) -> None:
        """Give a member that time from now, however much it had left."""
        self._deadlines.schedule(*self._deadline(group_id, member, timer, duration_ms))

    def start_unless_running(self, group_id: str, member: Member, timer: Timer, duration_ms: int) -> None:
        """Give a member that time from now, unless its time is running already."""
        self._deadlines.schedule_by(*self._deadline(group_id, member, timer, duration_ms))

    def stop(self, group_id: str, member_id: str, timer: Timer) -> None:
        """It was done in time."""
        self._deadlines.cancel((group_id, member_id, timer))

    def stop_all(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        for timer in Timer:
            self.stop(group_id, member_id, timer)

    def follow_session(self, group_id: str, member: Member) -> None:
        """A member of either protocol was heard of: its session begins anew."""
        classic = member.metadata.classic
        duration_ms = classic.session_timeout_ms if classic else self._session_timeout_ms
        self.start(group_id, member, Timer.SESSION, duration_ms)

    def follow_revocation(self, group_id: str, member: Member) -> None:
        """A member's assignment has changed: it has its rebalance timeout to give up what is not its own."""
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            self.start(group_id, member, Timer.REVOKE, member.metadata.rebalance_timeout_ms)
        else:
            self.stop(group_id, member.member_id, Timer.REVOKE)

    def _deadline(
        self, group_id: str, member: Member, timer: Timer, duration_ms: int
    ) -> tuple[tuple[str, str, Timer], int, Callable[[], None]]:
        expired = partial(self._expired, group_id, member.member_id, timer, member.current.epoch)
        return (group_id, member.member_id, timer), Deadlines.now_ms() + max(duration_ms, 0), expired
