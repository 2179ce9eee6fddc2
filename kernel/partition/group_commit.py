"""Group commit: what of one log is durable, and what `flush.messages` therefore allows to acknowledge.

An append that makes a flush due begins it, and the end of the flush moves the high watermark. While a flush
runs, appends continue; the next flush serves all of them. Flushes run in the background of the broker, never
in the task of a request: a request that is cancelled only stops waiting. After a flush that failed nothing is
called durable any more: the system may have dropped what it could not write (the fault matrix), so the
partition stays offline until it is opened again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.errors import StorageError
from tidelog.kernel.partition.storage_failure import storage_failure

if TYPE_CHECKING:
    from tidelog.kernel.partition.watermarks import Watermarks
    from tidelog.kernel.seams.storage import PartitionStore

MAX_OFFSET = 2**63 - 1


class GroupCommit:
    """The durable end of one log and its flushes.

    Offsets below `durable_offset` survive the loss of power. Once `flush_messages` records lie at or above it
    a flush is due; what such an append added is neither acknowledged nor shown to readers before.
    """

    __slots__ = (
        "_failed",
        "_failure",
        "_name",
        "_run",
        "_store",
        "_truncated_to",
        "_under_way",
        "_watermarks",
        "durable_offset",
        "flush_messages",
    )

    def __init__(
        self,
        name: str,
        store: PartitionStore,
        watermarks: Watermarks,
        flush_messages: int,
        run: Callable[[Callable[[], Awaitable[None]]], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Take the durable end over from the store; `name` of the partition is for messages.

        `run` runs a job on the event loop, soon and without ever cancelling it. `failed` is called there
        after a flush that failed, before anything that waits for the flush continues.
        """
        self.durable_offset = store.durable_offset
        self.flush_messages = flush_messages
        self._name = name
        self._store = store
        self._watermarks = watermarks
        self._run = run
        self._failed = failed
        self._under_way: trio.Event | None = None
        self._failure: Exception | None = None
        self._truncated_to = MAX_OFFSET

    @property
    def is_due(self) -> bool:
        """Whether so much is not durable that `flush.messages` asks for a flush."""
        return self._watermarks.log_end_offset - self.durable_offset >= self.flush_messages

    @property
    def has_unflushed(self) -> bool:
        """Whether something was appended that no flush has made durable."""
        return self.durable_offset < self._watermarks.log_end_offset

    def appended(self, log_end: int) -> bool:
        """Begin the flush that an append made due, or else show readers the log up to its new end.

        Returns whether a flush is due.
        """
        if log_end - self.durable_offset >= self.flush_messages:
            self.begin()
            return True
        self._watermarks.advance(log_end)
        return False

    def truncated(self, log_end: int) -> None:
        """Lower the durable end to that of the log.

        A flush under way may return what was durable before the truncation.
        """
        self.durable_offset = min(self.durable_offset, log_end)
        self._truncated_to = min(self._truncated_to, log_end)

    def begin(self) -> None:
        """Flush everything that is appended before the event loop's next turn, unless a flush runs.

        Whether another flush has to follow one that was under way already is decided at its end.
        """
        if self._under_way is None and self._failure is None:
            self._under_way = trio.Event()
            self._run(self._flush_once)

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
        """
        while self.durable_offset <= offset and self.is_due:
            await self.flush()

    async def flush_all(self) -> None:
        """Wait until everything is durable that is in the log now.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
        """
        end = self._watermarks.log_end_offset
        # A truncation meanwhile leaves less to wait for.
        while self.durable_offset < min(end, self._watermarks.log_end_offset):
            await self.flush()

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

    def flush_if_due(self) -> None:
        """Blocking, before anyone appends or reads: make durable what a killed process had only appended.

        Raises:
            OSError, StorageError: the disk refused.
        """
        if self.is_due:
            self.durable_offset = self._store.flush()

    async def _flush_once(self) -> None:
        self._truncated_to = MAX_OFFSET
        try:
            flushed = await trio.to_thread.run_sync(self._store.flush)
            self.durable_offset = max(self.durable_offset, min(flushed, self._truncated_to))
        except OSError as error:
            self._failure = error
        except Exception as error:
            self._failure = storage_failure(self._name, self._store, "flush", error)
        finally:
            ended, self._under_way = self._under_way, None
            if ended is not None:
                ended.set()
        if self._failure is None:
            self._show()
        else:
            self._failed(_refusal(self._failure))

    def _show(self) -> None:
        """Show readers what a flush made durable, and flush again where more has become due meanwhile."""
        watermarks = self._watermarks
        if self.is_due:
            if not watermarks.follows:
                watermarks.advance_partly(self.durable_offset)
            self.begin()
        elif not watermarks.follows:
            watermarks.advance(watermarks.log_end_offset)


def _refusal(failure: Exception) -> StorageError:
    return StorageError(f"the disk refused to flush: {failure}")
