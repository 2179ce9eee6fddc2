"""Group commit: one flush makes durable what every append that waits has written.

While a flush runs, appends go on; the next flush serves all of them. Flushes run in the background of the
broker, never in the task of a request: a request that is cancelled only stops waiting. After a flush that
failed nothing is called durable any more: the system may have dropped what it could not write (the fault
matrix), so the partition stays failed until it is opened again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from tidelog.kernel.errors import StorageError

_log = logging.getLogger(__name__)

MAX_OFFSET = 2**63 - 1


class GroupCommit:
    """The durable end of one log. Offsets below `durable_offset` survive the loss of power."""

    __slots__ = ("_cut_to", "_ended", "_failure", "_flush", "_run", "_under_way", "durable_offset")

    def __init__(
        self,
        durable_offset: int,
        flush: Callable[[], int],
        run: Callable[[Callable[[], Awaitable[None]]], None],
        ended: Callable[[StorageError | None], None],
    ) -> None:
        """`flush` blocks, and gives the offset up to which the log is durable afterwards.

        `run` runs a job on the event loop, soon and without ever cancelling it. `ended` is called there after
        every flush, with its failure if it failed, before anything that waits for it continues.
        """
        self.durable_offset = durable_offset
        self._flush = flush
        self._run = run
        self._ended = ended
        self._under_way: trio.Event | None = None
        self._failure: Exception | None = None
        self._cut_to = MAX_OFFSET

    def truncated(self, end_offset: int) -> None:
        """The log ends at `end_offset` now; a flush under way may still tell of what was behind it."""
        self.durable_offset = min(self.durable_offset, end_offset)
        self._cut_to = min(self._cut_to, end_offset)

    def begin(self) -> None:
        """Have everything flushed that is appended until the event loop gets its turn, unless a flush runs.

        `ended` decides whether another flush has to follow one that was under way already.
        """
        if self._under_way is None and self._failure is None:
            self._under_way = trio.Event()
            self._run(self._flush_once)

    async def flush(self) -> None:
        """Wait for one flush: the one under way, or else a new one.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
        """
        if self._failure is not None:
            raise StorageError(f"an earlier flush failed: {self._failure}")
        self.begin()
        if self._under_way is not None:
            await self._under_way.wait()
        if self._failure is not None:
            raise _refusal(self._failure)

    async def _flush_once(self) -> None:
        self._cut_to = MAX_OFFSET
        try:
            flushed = await trio.to_thread.run_sync(self._flush)
            self.durable_offset = max(self.durable_offset, min(flushed, self._cut_to))
        except OSError as error:
            self._failure = error
        except Exception as error:
            _log.exception("a flush failed")
            self._failure = error
        finally:
            ended, self._under_way = self._under_way, None
            if ended is not None:
                ended.set()
        self._ended(None if self._failure is None else _refusal(self._failure))


def _refusal(failure: Exception) -> StorageError:
    return StorageError(f"the disk refused to flush: {failure}")
