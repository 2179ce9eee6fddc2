"""Memory and threads for decompressing records, which all partitions of a broker share.

A small batch can decompress to hundreds of megabytes, and the window of a zstd frame may have 128. So the
memory in use at the same time is bounded: requests beyond it wait in a queue, one larger than all runs alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import trio

from tidelog.kernel.config import keys

T = TypeVar("T")

CHECKS = 2
"""How many batches of producers are checked at the same time, other than small ones."""
KEPT_SHARE = 2
"""For every so many bytes that decompression may use, one more keeps batches open between two pieces."""
READ_THREADS = 4
"""Threads that read records for consumers: other work in threads does not wait for them."""


class MemoryBudget:
    """Bytes that may be held at the same time, granted in the order of the requests."""

    def __init__(self, total_bytes: int) -> None:
        self._total = total_bytes
        self._free = total_bytes
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def free_bytes(self) -> int:
        """Bytes that are not held."""
        return self._free

    @property
    def waiting(self) -> int:
        """How many requests are in the queue."""
        return len(self._queue)

    def try_hold(self, size: int) -> bool:
        """Hold `size` bytes if they are free and no request waits; return whether they are held."""
        with self._changed:
            # Not past the queue, even if there is room: small requests would keep a large one waiting
            # forever.
            if self._queue or self._of_all(size) > self._free:
                return False
            self._free -= self._of_all(size)
            return True

    def release(self, size: int) -> None:
        """Free `size` bytes that were held."""
        with self._changed:
            self._free += self._of_all(size)
            self._changed.notify_all()

    @contextmanager
    def hold(self, size: int) -> Generator[None]:
        """Blocking: wait in the queue for `size` bytes, and hold them until the block ends."""
        me = object()
        with self._changed:
            self._queue.append(me)
            self._changed.wait_for(lambda: self._queue[0] is me and self._of_all(size) <= self._free)
            self._queue.popleft()
            self._free -= self._of_all(size)
            # The next in the queue may fit into the rest.
            self._changed.notify_all()
        try:
            yield
        finally:
            self.release(size)

    def _of_all(self, size: int) -> int:
        """Return `size`, at most the total."""
        return min(size, self._total)


class Unpacking:
    """The limit on memory, and the threads that decompress."""

    def __init__(self, memory_bytes: int = keys.DECOMPRESSION_MEMORY_BYTES.default) -> None:
        self.memory = MemoryBudget(memory_bytes)
        # Apart from `memory`, for which producers wait: a client may take as long as it likes for a piece.
        self.kept = MemoryBudget(memory_bytes // KEPT_SHARE)
        """The limit on batches that are open between two pieces of a response; one that is not held by then
        is decompressed again."""
        self.checks = trio.CapacityLimiter(CHECKS)
        """Held while records are checked, so that a task that holds memory never waits for a thread."""
        self._check_threads = trio.CapacityLimiter(CHECKS)
        self._read_threads = trio.CapacityLimiter(READ_THREADS)

    async def acquire_check(self) -> None:
        """Acquire one of `checks`; that is a checkpoint only if none is free."""
        try:
            self.checks.acquire_nowait()
        except trio.WouldBlock:
            await self.checks.acquire()

    async def check_in_thread(self, job: Callable[[], T]) -> T:
        """Run a job that checks a producer's records in a thread; the caller holds one of `checks`."""
        return await trio.to_thread.run_sync(job, limiter=self._check_threads)

    async def read(self, job: Callable[[], T]) -> T:
        """Run a job that reads records for a consumer in a thread."""
        return await trio.to_thread.run_sync(job, limiter=self._read_threads)
