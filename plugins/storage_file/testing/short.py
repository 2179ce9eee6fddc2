"""Disk with short reads and writes, which the system may return at any time."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from tidelog.kernel import disk
from tidelog.plugins.storage_file.testing.interposing import Interposer

SHORTENED = frozenset({"pread", "preadv", "pwrite"})
"""Calls that return a number of bytes."""


class ShortDisk(Interposer):
    """Disk that transfers fewer bytes than requested; a non-waiting read may also find nothing in memory.

    `shortened` counts the short calls, `refused` those that failed with EAGAIN.
    """

    def __init__(self, allow: Callable[[int], int]) -> None:
        """Limit each call for `size` bytes to `allow(size)` bytes.

        Where a call waits that is at least one byte, since 0 would mean the end of the file or a full disk.
        """
        super().__init__()
        self._allow = allow
        self.shortened = 0
        self.refused = 0

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Perform a part of a call."""
        if name not in SHORTENED:
            return perform(*arguments)
        fd, what, position, *flags = arguments
        if name == "pread":
            content: bytes = perform(fd, self._part(what), position)
            self._count(len(content), what)
            return content
        if name == "pwrite":
            view = memoryview(what)
            return self._count(perform(fd, view[: self._part(len(view))], position), len(view))
        return self._preadv(perform, fd, memoryview(what[0]), position, flags[0] if flags else 0)

    def _preadv(
        self, perform: Callable[..., int], fd: int, view: memoryview, position: int, flags: int
    ) -> int:
        if flags & disk.NOWAIT:
            allowed = self._allow(len(view))
            if not allowed and view:
                self.refused += 1
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            # Without the flag: what the fake does not hold back counts as being in memory.
            return self._count(perform(fd, [view[:allowed]], position, 0), len(view))
        return self._count(perform(fd, [view[: self._part(len(view))]], position, flags), len(view))

    def _part(self, size: int) -> int:
        return max(min(self._allow(size), size), min(size, 1))

    def _count(self, moved: int, size: int) -> int:
        self.shortened += 0 < moved < size
        return moved
