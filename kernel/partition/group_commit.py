"""Group commit: one flush makes durable what every append that waits has written.

While a flush runs, appends go on and whoever needs them durable joins the queue; the next flush serves all of
them. After a flush that failed nothing is called durable any more: the system may have dropped what it could
not write (the fault matrix), so the partition stays failed until it is opened anew.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from tidelog.kernel.errors import StorageError

MAX_OFFSET = 2**63 - 1


class GroupCommit:
    """The durable end of one log. Offsets below `durable_offset` survive the loss of power."""

    __slots__ = ("_cut_to", "_failure", "_flush", "_under_way", "durable_offset")

    def __init__(self, durable_offset: int, flush: Callable[[], int]) -> None:
        """`flush` blocks, and gives the offset up to which the log is durable afterwards."""
        self.durable_offset = durable_offset
        self._flush = flush
        self._under_way: trio.Event | None = None
        self._failure: OSError | None = None
        self._cut_to = MAX_OFFSET

    def truncated(self, end_offset: int) -> None:
        """The log ends at `end_offset` now; a flush under way may still tell of what was behind it."""
        self.durable_offset = min(self.durable_offset, end_offset)
        self._cut_to = min(self._cut_to, end_offset)

    async def flush(self) -> None:
        """Wait for one flush: the one under way, or else a new one.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
        """
        if self._failure is not None:
            raise StorageError(f"an earlier flush failed: {self._failure}")
        if self._under_way is not None:
            await self._under_way.wait()
            return
        self._under_way = trio.Event()
        self._cut_to = MAX_OFFSET
        try:
            flushed = await trio.to_thread.run_sync(self._flush)
            self.durable_offset = max(self.durable_offset, min(flushed, self._cut_to))
        except OSError as error:
            self._failure = error
            raise StorageError(f"the disk refused to flush: {error}") from error
        finally:
            self._under_way.set()
            self._under_way = None
