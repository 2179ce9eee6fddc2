"""Memory that connections had and that the process gives back to the system.

The allocator keeps what was freed between objects that live on, such as the buffers of thousands of
connections that have ended. `malloc_trim` of glibc returns whole pages of it; other allocators do that
themselves.
"""

from __future__ import annotations

import trio

ENOUGH_CONNECTIONS = 100
"""So many have to end before it is worth the few milliseconds, in a thread, that it takes."""


class MemoryReturn:
    """Counts connections that have ended, and trims the memory of the process when they are many."""

    def __init__(self) -> None:
        self._ended = 0

    def connection_ended(self) -> None:
        """Count it."""
        self._ended += 1

    async def trim_if_worthwhile(self) -> None:
        """Give free memory back if many connections have ended since the last time."""
        if self._ended >= ENOUGH_CONNECTIONS:
            self._ended = 0
            await trio.to_thread.run_sync(_trim)


def _trim() -> None:
    # Not at the top: most brokers never need it.
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
