"""The transactions of a partition that bound its last stable offset.

A transaction is open from its first batch to its marker, and undecided for readers until the marker is below
the high watermark. Source: Apache Kafka's `ProducerStateManager` (`ongoingTxns`,
`unreplicatedTxns`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """The first offset of a transaction and the offset of its marker."""

    first_offset: int
    last_offset: int


class LogTransactions:
    """Open transactions, and ended ones whose marker not every replica has.

    `open` maps first offsets, ascending, to producer ids; an ordered map, since its first entry is asked for
    all the time. `ended` has what would keep readers back once nothing is open: its markers ascend, and so do
    its first offsets: the transaction with the later marker and the smaller first offset covers the others.
    """

    __slots__ = ("ended", "open")

    def __init__(self) -> None:
        self.open: OrderedDict[int, int] = OrderedDict()
        self.ended: deque[EndedTransaction] = deque()

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Add a transaction whose first batch is in the log, after those of all others."""
        self.open[first_offset] = producer_id

    def end(self, first_offset: int, last_offset: int) -> None:
        """Move a transaction whose marker is in the log at `last_offset` to the ended ones."""
        del self.open[first_offset]
        ended = self.ended
        # Such a transaction lies within this one: until the later marker is committed the smaller first
        # offset holds readers back, and after it both are decided.
        while ended and ended[-1].first_offset > first_offset:
            ended.pop()
        ended.append(EndedTransaction(first_offset, last_offset))

    def stable_offset_after(self, first_offset: int, last_offset: int) -> int:
        """Return the last stable offset once the open transaction that began at `first_offset` ends.

        It is the next open one's first offset, or what follows the marker at `last_offset`.
        """
        # They are in order, and only one of them is to be skipped: two are enough.
        others = (first for first in islice(self.open, 2) if first != first_offset)
        return next(others, last_offset + 1)

    def settle(self, high_watermark: int) -> int | None:
        """Drop ended transactions below the high watermark; return the first undecided offset, if any."""
        ended = self.ended
        # The first ones only: markers ascend, so the others end later.
        while ended and ended[0].last_offset < high_watermark:
            ended.popleft()
        undecided = [ended[0].first_offset] if ended else []
        undecided += islice(self.open, 1)
        return min(undecided, default=None)

    def restore(self, open_transactions: Iterable[tuple[int, int]]) -> None:
        """Replace all by these (first offset, producer id), which are open, in any order."""
        # A snapshot has them in the order of producers; `begin` and the stable offset rely on that of
        # offsets.
        self.open = OrderedDict(sorted(open_transactions))
        self.ended.clear()
