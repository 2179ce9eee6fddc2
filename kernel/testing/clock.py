"""A wall clock that moves only when a test moves it."""

from __future__ import annotations

START_MS = 1_700_000_000_000


class FakeClock:
    """A `Clock`: call it for the milliseconds since the epoch."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self.now_ms += by_ms
