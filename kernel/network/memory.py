"""Memory of the machine, and what connections had and the process gives back to the system.

The allocator keeps what was freed between objects that live on, such as the buffers of thousands of
connections that have ended. `malloc_trim` of glibc returns whole pages of it; other allocators do that
themselves.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import trio

from tidelog.kernel.allocator import return_freed_blocks

_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
"""The limit of a container (cgroup v2), `max` without any."""


def memory_bytes() -> int:
    """Return the memory of the machine, or of its container if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # there is no container, or it has no limit
        total = min(total, int(_CGROUP_LIMIT.read_text()))
    return total


ENOUGH_CONNECTIONS = 100
"""So many have to end before it is worth the few milliseconds, in a thread, that it takes."""
ENOUGH_BYTES = 16 * 1024 * 1024
"""Or so much of the memory of requests."""


KEPT_BYTES = 2 * 1024 * 1024
"""Blocks up to this size are not returned to the system one by one: larger than any piece of records."""


class MemoryReturn:
    """Counts connections that have ended, and trims the memory of the process when they had much."""

    def __init__(self) -> None:
        self._ended = 0
        self._bytes = 0

    def connection_ended(self, held_bytes: int) -> None:
        """Count a connection, which had that memory for a request."""
        self._ended += 1
        self._bytes += held_bytes

    async def trim_if_worthwhile(self) -> None:
        """Give free memory back if what has ended since the last time had much of it."""
        if self._ended >= ENOUGH_CONNECTIONS or self._bytes >= ENOUGH_BYTES:
            self._ended = self._bytes = 0
            await trio.to_thread.run_sync(return_freed_blocks)
