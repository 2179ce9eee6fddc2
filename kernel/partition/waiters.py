"""Waiting for a log to grow: the long poll's half that lives in a partition."""

from __future__ import annotations

from collections.abc import Callable


class AppendWaiter:
    """Calls `wake` once, as soon as the partitions it waits at have grown by `missing_bytes` together."""

    __slots__ = ("_missing", "_wake")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self._missing = missing_bytes
        self._wake = wake

    def grew(self, size_bytes: int) -> None:
        """A partition was appended to."""
        self._missing -= size_bytes
        if self._missing <= 0:
            self._wake()

    def abandon(self) -> None:
        """The partition goes away: wake at once, so that the one who waits sees it."""
        self._missing = 0
        self._wake()
