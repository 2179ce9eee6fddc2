"""How far readers may read, and waking them when it is further than before.

    log start ≤ last stable ≤ high watermark ≤ log end

Source: seed 002, "Offset boundaries: LSO, LEO, HW, recovery point".
"""

from __future__ import annotations

from tidelog.kernel.partition.transactions import Transactions
from tidelog.kernel.partition.waiters import AppendWaiter


class Watermarks:
    """High watermark and last stable offset of one partition, and who waits for them to move."""

    __slots__ = (
        "_log_start",
        "_transactions",
        "_undecided_bytes",
        "committed_waiters",
        "high_watermark",
        "last_stable_offset",
        "unseen_bytes",
        "waiters",
    )

    def __init__(self, log_start: int, high_watermark: int, transactions: Transactions) -> None:
        """`unseen_bytes` are to be counted up with every append."""
        self._log_start = log_start
        self._transactions = transactions
        self._undecided_bytes = 0
        self.high_watermark = self.last_stable_offset = high_watermark
        self.unseen_bytes = 0
        self.waiters: set[AppendWaiter] = set()
        self.committed_waiters: set[AppendWaiter] = set()

    def advance(self, offset: int) -> None:
        """Let readers see what lies below `offset`, and wake those who wait for it; it never goes back."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        size, self.unseen_bytes = self.unseen_bytes, 0
        transactions = self._transactions
        if transactions.open or transactions.ended or self._undecided_bytes:
            self._undecided_bytes += size
            self._advance_stable()
        else:
            self.last_stable_offset = offset
            if self.committed_waiters:
                _wake(self.committed_waiters, size)
        if self.waiters:
            _wake(self.waiters, size)

    def advance_partly(self, offset: int) -> None:
        """Like `advance`, where readers do not see all that was appended.

        How many of the unseen bytes lie below `offset` only the log knows. Waiters count all of them, now and
        again when the rest is shown: waking early does no harm, not waking would.
        """
        unseen_bytes = self.unseen_bytes
        self.advance(offset)
        self.unseen_bytes = unseen_bytes

    def raise_log_start(self, offset: int) -> None:
        """The log begins at `offset` now: what lies below it is undecided for nobody."""
        self._log_start = offset
        self._advance_stable()

    def set_back(self, log_start: int, high_watermark: int) -> None:
        """Take these bounds of a log that was loaded or cut, and its open transactions, into account."""
        self._log_start = log_start
        self.high_watermark = high_watermark
        self.last_stable_offset = self._stable_offset()
        self.unseen_bytes = self._undecided_bytes = 0

    def hold_back(self, log_start: int, high_watermark: int) -> None:
        """Show nothing from `high_watermark` on, and committed readers nothing at all, until `set_back`.

        Transactions whose marker is about to be cut off were forgotten when they ended.
        """
        self.high_watermark = high_watermark
        self.last_stable_offset = min(log_start, high_watermark)

    def _stable_offset(self) -> int:
        undecided = self._transactions.settle(self.high_watermark)
        if undecided is None:
            return self.high_watermark
        return min(max(undecided, self._log_start), self.high_watermark)

    def _advance_stable(self) -> None:
        before, self.last_stable_offset = self.last_stable_offset, self._stable_offset()
        if self.last_stable_offset == before:
            return
        size = self._undecided_bytes
        if self.last_stable_offset == self.high_watermark:
            self._undecided_bytes = 0
        # How many bytes a part of the undecided ones are, only the log knows; waking early does no harm.
        _wake(self.committed_waiters, max(size, 1))


def _wake(waiters: set[AppendWaiter], size_bytes: int) -> None:
    for waiter in tuple(waiters):
        waiter.grew(size_bytes)
