"""A rate limit for log events that a peer can provoke."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs


@attrs.define
class _Window:
    """When an interval of a key began, how many events were admitted since then, and how many were not."""

    opened: float
    admitted: int = 1
    suppressed: int = 0


class RateLimit:
    """Admits `most` events per key and interval, and counts the others.

    At most `max_keys` keys are distinguished at a time. Further ones share one limit, so that a flood from
    many addresses fills neither the log nor the memory.
    """

    def __init__(
        self,
        interval_seconds: float,
        *,
        most: int = 1,
        max_keys: int = 1000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = interval_seconds
        self._most = most
        self._max_keys = max_keys
        self._now = now
        self._windows: dict[str | None, _Window] = {}
        self._swept = now()

    def admit(self, key: str) -> int | None:
        """Return None if the event must not be logged, else how many of its key were not before it."""
        now = self._now()
        window = self._window(key, now)
        if window is None:
            return 0
        if now - window.opened < self._interval:
            if window.admitted >= self._most:
                window.suppressed += 1
                return None
            window.admitted += 1
            return 0
        suppressed = window.suppressed
        window.opened, window.admitted, window.suppressed = now, 1, 0
        return suppressed

    def spent(self, key: str) -> bool:
        """Return whether an event of the key would not be admitted; then it is counted as such."""
        window = self._windows.get(key)
        if window is None or window.admitted < self._most or self._now() - window.opened >= self._interval:
            return False
        window.suppressed += 1
        return True

    def _window(self, key: str | None, now: float) -> _Window | None:
        """Return the window of `key`, None if it was only just created."""
        if key not in self._windows and len(self._windows) >= self._max_keys:
            self._forget_quiet_keys(now)
            # Looked at again: the sweep may have made room, or was not due.
            if len(self._windows) >= self._max_keys:
                key = _EVERYONE_ELSE
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(now)
        return window

    def _forget_quiet_keys(self, now: float) -> None:
        # Once per interval: a peer could keep the broker busy with a sweep per event.
        if now - self._swept < self._interval:
            return
        self._swept = now
        self._windows = {
            key: window for key, window in self._windows.items() if now - window.opened < self._interval
        }


_EVERYONE_ELSE = None
