"""The offsets of one partition that bound what its readers may see, and waking readers when these move.

    log start ≤ last stable ≤ high watermark ≤ log end

A long poll (`AppendWaiter`) waits here for more than it can read now. A `LogWatcher` is notified of each
change.
"""

from __future__ import annotations

from tidelog.kernel.log.transactions import LogTransactions
from tidelog.kernel.seams.partition import AppendWaiter, LogWatcher


class Watermarks:
    """Log start, last stable offset, high watermark and log end of one partition, and the waiters for them.

    With `follows` another broker leads: then neither an append nor a flush moves the high watermark.
    """

    __slots__ = (
        "_transactions",
        "_undecided_bytes",
        "committed_waiters",
        "follows",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
        "unseen_bytes",
        "waiters",
        "watchers",
    )

    def __init__(self, log_start: int, log_end: int, transactions: LogTransactions) -> None:
        """Let readers see all of the log until `reset` gives other bounds.

        `log_end_offset` and `unseen_bytes` are to be raised with every append.
        """
        self._transactions = transactions
        self._undecided_bytes = 0
        self.unseen_bytes = 0
        self.log_start_offset = log_start
        self.high_watermark = self.last_stable_offset = self.log_end_offset = log_end
        self.follows = False
        self.waiters: set[AppendWaiter] = set()
        self.committed_waiters: set[AppendWaiter] = set()
        # None until the first one comes: most of very many partitions never have one.
        self.watchers: set[LogWatcher] | None = None

    def advance(self, offset: int) -> None:
        """Raise the high watermark to `offset` and wake the waiters; it never goes back."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        size, self.unseen_bytes = self.unseen_bytes, 0
        transactions = self._transactions
        # Without a transaction both isolations see the same, which is nearly every append: nothing is
        # computed then.
        if transactions.open or transactions.ended or self._undecided_bytes:
            self._undecided_bytes += size
            self._advance_stable()
            self.notify(size, 0)
        else:
            self.last_stable_offset = offset
            if self.committed_waiters:
                _wake(self.committed_waiters, size)
            if self.watchers:
                self.notify(size, size)
        if self.waiters:
            _wake(self.waiters, size)

    def advance_partly(self, offset: int) -> None:
        """Raise the high watermark as `advance` does, to an offset below the log end.

        How many of the unseen bytes lie below `offset` only the log knows. Waiters count all of them, now and
        again when the rest is shown: waking early costs one more read, not waking would be an error.
        """
        # `advance` sets it to 0, as if all of the log were shown.
        unseen_bytes = self.unseen_bytes
        self.advance(offset)
        self.unseen_bytes = unseen_bytes

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start: a transaction that begins below it no longer holds readers back there."""
        self.log_start_offset = offset
        self._advance_stable()
        self.notify()

    def reset(self, log_start: int, high_watermark: int, log_end: int) -> None:
        """Set the bounds of a log that was loaded or truncated; the open transactions are those of now."""
        self.log_start_offset = log_start
        self.high_watermark = high_watermark
        self.log_end_offset = log_end
        self.last_stable_offset = self._stable_offset()
        self.unseen_bytes = self._undecided_bytes = 0
        self.notify()

    def hold_back(self, high_watermark: int) -> None:
        """Show nothing from `high_watermark` on, and committed readers nothing at all, until `reset`.

        Transactions whose marker is about to be truncated were dropped when they ended.
        """
        self.high_watermark = high_watermark
        self.last_stable_offset = min(self.log_start_offset, high_watermark)
        self.notify()

    def add_waiter(self, waiter: AppendWaiter, *, committed: bool) -> None:
        """Notify `waiter` from now on whenever readers can read more; `committed`: committed readers."""
        (self.committed_waiters if committed else self.waiters).add(waiter)

    def remove_waiter(self, waiter: AppendWaiter) -> None:
        """Notify `waiter` no longer."""
        self.waiters.discard(waiter)
        self.committed_waiters.discard(waiter)

    def add_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` from now on of each change of an offset that readers are shown."""
        if self.watchers is None:
            self.watchers = set()
        self.watchers.add(watcher)

    def remove_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` no longer."""
        if self.watchers is not None:
            self.watchers.discard(watcher)

    def abandon_waiters(self) -> None:
        """Wake all waiters: there is nothing to wait for any more."""
        # A copy: a waiter may remove itself when it is called.
        for waiter in (*self.waiters, *self.committed_waiters, *(self.watchers or ())):
            waiter.abandon()

    def notify(self, uncommitted_bytes: int = 0, committed_bytes: int = 0) -> None:
        """Notify the watchers that an offset has changed; readers of either isolation see more by so much."""
        if self.watchers:
            # A copy: a watcher may remove itself when it is called.
            for watcher in tuple(self.watchers):
                watcher.moved(uncommitted_bytes, committed_bytes)

    def _stable_offset(self) -> int:
        undecided = self._transactions.settle(self.high_watermark)
        if undecided is None:
            return self.high_watermark
        # DeleteRecords may remove the beginning of an open transaction, and one may begin above the high
        # watermark.
        return min(max(undecided, self.log_start_offset), self.high_watermark)

    def _advance_stable(self) -> None:
        before, self.last_stable_offset = self.last_stable_offset, self._stable_offset()
        if self.last_stable_offset == before:
            return
        size = self._undecided_bytes
        if self.last_stable_offset == self.high_watermark:
            self._undecided_bytes = 0
        # How many bytes a part of the undecided ones are, only the log shows; waking early costs one read.
        _wake(self.committed_waiters, max(size, 1))
        self.notify(0, max(size, 1))


def _wake(waiters: set[AppendWaiter], size_bytes: int) -> None:
    # A copy: a waiter that has enough may remove itself.
    for waiter in tuple(waiters):
        waiter.grew(size_bytes)
