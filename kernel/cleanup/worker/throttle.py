"""The limit of bytes that a worker reads and writes in a second."""

from __future__ import annotations

from collections.abc import Callable


class ByteRate:
    """A limit of bytes per second, for one user; `clock()` gives seconds."""

    __slots__ = ("_at", "_clock", "_due_bytes", "bytes_per_second")

    def __init__(self, bytes_per_second: float, clock: Callable[[], float]) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._at = clock()
        # What was used and not yet waited for, at that time: a changed limit applies to it, too.
        self._due_bytes = 0.0

    def spend(self, size_bytes: int) -> float:
        """Note that so many bytes were used; return how many seconds to wait before the next ones."""
        now = self._clock()
        self._due_bytes = max(self._due_bytes - (now - self._at) * self.bytes_per_second, 0) + size_bytes
        self._at = now
        return self._due_bytes / self.bytes_per_second
