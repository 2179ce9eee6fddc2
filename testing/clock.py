"""Time of a broker that a test moves: that of the machine, and what was added to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import trio

from tidelog.kernel.clock import wall_clock_ms


class ShiftedClock(trio.abc.Clock):
    """A clock for the event loop and the wall clock of a broker, which both run at the usual speed.

    All that the broker times follows it: retention, segments, sessions, transactions, the age of committed
    offsets and of tombstones, timestamps by log append time, and requests that wait. Clients do not.
    """

    def __init__(self) -> None:
        self._shift_s = 0.0
        self._wake: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<ShiftedClock {timedelta(seconds=self._shift_s)} ahead>"

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: float = 0
    ) -> None:
        """Let that much time pass at once; what is due happens soon after.

        Raises:
            ValueError: time would go back.
        """
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
        if passed < timedelta(0):
            raise ValueError(f"time of a broker does not go back, {passed} was asked for")
        self._shift_s += passed.total_seconds()
        if self._wake is not None:
            self._wake()

    @property
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return wall_clock_ms() + round(self._shift_s * 1000)

    def wake_by(self, wake: Callable[[], None] | None) -> None:
        """Have an event loop look at its deadlines again after each step; None for no loop any more."""
        self._wake = wake

    def start_clock(self) -> None:
        """Do nothing: the clock runs already."""

    def current_time(self) -> float:
        """Return the seconds of the event loop's clock."""
        return time.perf_counter() + self._shift_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how many real seconds are left until a deadline."""
        return deadline - self.current_time()
