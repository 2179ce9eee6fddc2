"""Group commit: what of one log is durable, and what `flush.messages` therefore allows to acknowledge.

An append that makes a flush due begins it, and the end of the flush moves the high watermark. While a flush
runs, appends continue; the next flush serves all of them. Flushes run in threads (`FlushThreads`), never in
the task of a request: a request that is cancelled only stops waiting. After a flush that failed nothing is
called durable any more: the system may have dropped what it could not write (the fault matrix), so the
partition stays offline until it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import attrs
import trio

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.log.storage_failure import storage_failure

if TYPE_CHECKING:
    from tidelog.kernel.log.flush_threads import FlushThreads
    from tidelog.kernel.log.watermarks import Watermarks
    from tidelog.kernel.seams.storage import PartitionStore

MAX_OFFSET = 2**63 - 1


@attrs.define(eq=False)
class _Wait:
    """A wait for a flush; with `refusal` it has ended otherwise."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    refusal: BrokerError | None = None


class GroupCommit:
    """The durable end of one log and its flushes.

    Offsets below `durable_offset` survive the loss of power. Once `flush_messages` records lie at or above it
    a flush is due; what such an append added is neither acknowledged nor shown to readers before.
    """

    __slots__ = (
        "_failed",
        "_failure",
        "_flush_ended",
        "_is_flushing",
        "_name",
        "_numbers",
        "_store",
        "_threads",
        "_truncated_to",
        "_waiting",
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
        threads: FlushThreads,
        failed: Callable[[StorageError], None],
    ) -> None:
        """Take the durable end over from the store; `name` of the partition is for messages.

        `failed` is called on the event loop after a flush that failed, before anything that waits for the
        flush continues.
        """
        self.durable_offset = store.durable_offset
        self.flush_messages = flush_messages
        self._name = name
        self._store = store
        self._watermarks = watermarks
        self._threads = threads
        self._failed = failed
        self._is_flushing = False
        self._flush_ended = trio.Event()
        # Offset → who waits for it to be durable, the lowest first; numbers keep waits from being compared.
        self._waiting: list[tuple[int, int, _Wait]] = []
        self._numbers = count()
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
        # Without a flush the end of the append is the end of what is committed: no other replica has to have
        # it.
        self._watermarks.advance(log_end)
        return False

    def truncated(self, log_end: int) -> None:
        """Lower the durable end to that of the log.

        A flush under way may return what was durable before the truncation.
        """
        self.durable_offset = min(self.durable_offset, log_end)
        # What is appended again at these offsets is not in that flush: `_ended` takes no more of its outcome.
        self._truncated_to = min(self._truncated_to, log_end)

    def begin(self) -> None:
        """Flush everything that is appended before the event loop's next turn, unless a flush runs.

        Whether another flush has to follow one that was under way already is decided at its end.
        """
        # At most one flush at a time: appends meanwhile wait for the next one together. None after a failure,
        # since a second fsync may succeed although pages of the first one were dropped.
        if not self._is_flushing and self._failure is None:
            self._is_flushing = True
            self._truncated_to = MAX_OFFSET
            self._threads.begin(self._store.log_directory, self._store.flush, self._ended)

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
            BrokerError: what `abandon_waits` got.
        """
        # A loop, since the flush that ends may have begun before the record was appended. Not the durable end
        # alone: of fewer than flush.messages records each may be acknowledged without a flush.
        while self.durable_offset <= offset and self.is_due:
            self._check()
            self.begin()
            wait = _Wait()
            heappush(self._waiting, (offset, next(self._numbers), wait))
            await wait.ended.wait()
            if wait.refusal is not None:
                # All waits raise the same object: a traceback would grow with each, and keep their frames
                # alive.
                raise wait.refusal.with_traceback(None)
            if self._failure is not None:
                raise _refusal(self._failure)

    def abandon_waits(self, refusal: BrokerError) -> None:
        """End all of `wait_flushed` with an error: what they wait for is not acknowledged here any more."""
        waiting, self._waiting = self._waiting, []
        for _, _, wait in waiting:
            wait.refusal = refusal
            wait.ended.set()

    async def flush_all(self) -> None:
        """Wait until everything is durable that is in the log now.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
        """
        end = self._watermarks.log_end_offset
        # A truncation meanwhile leaves less to wait for.
        while self.durable_offset < min(end, self._watermarks.log_end_offset):
            # One may not be enough: a flush under way began before the last appends.
            await self.flush()

    async def flush(self) -> None:
        """Wait for one flush: the one under way, or else a new one.

        Raises:
            StorageError: the disk refused, now or at an earlier flush.
        """
        self._check()
        self.begin()
        await self._flush_ended.wait()
        if self._failure is not None:
            raise _refusal(self._failure)

    def _check(self) -> None:
        if self._failure is not None:
            raise StorageError(f"an earlier flush failed: {self._failure}")

    def flush_if_due(self) -> None:
        """Blocking, before anyone appends or reads: make durable what a killed process had only appended.

        Raises:
            OSError, StorageError: the disk refused.
        """
        if self.is_due:
            self.durable_offset = self._store.flush()

    def _ended(self, outcome: int | Exception) -> None:
        """Count what a flush made durable, or take the partition offline; then wake those who waited."""
        # Before anything else: `show_durable` begins the next flush where one is due, and `_wake` has to see
        # it.
        self._is_flushing = False
        if isinstance(outcome, int):
            self.durable_offset = max(self.durable_offset, min(outcome, self._truncated_to))
            self.show_durable()
        else:
            if not isinstance(outcome, OSError):
                outcome = storage_failure(self._name, self._store, "flush", outcome)
            self._failure = outcome
            # Before the waits end, so that what they wake up finds the log offline.
            self._failed(_refusal(outcome))
        self._wake()

    def _wake(self) -> None:
        """Wake those whose wait has ended; they never wait for a flush that does not run."""
        # Set and replaced at once: those in `flush` wait for one flush, the next ones for a later one.
        self._flush_ended.set()
        self._flush_ended = trio.Event()
        # If no flush follows, none would wake the others: they look at the durable end and the failure
        # themselves, and begin one if they have to.
        waiting, all_of_them = self._waiting, not self._is_flushing
        while waiting and (all_of_them or waiting[0][0] < self.durable_offset):
            heappop(waiting)[2].ended.set()

    def show_durable(self) -> None:
        """Show readers what a flush made durable, and flush again where more has become due meanwhile."""
        watermarks = self._watermarks
        if self.is_due:
            if not watermarks.follows:
                # Less than all is durable: readers may not see a record that a loss of power could take away
                # again.
                watermarks.advance_partly(self.durable_offset)
            self.begin()
        elif not watermarks.follows:
            watermarks.advance(watermarks.log_end_offset)


def _refusal(failure: Exception) -> StorageError:
    return StorageError(f"the disk refused to flush: {failure}")
