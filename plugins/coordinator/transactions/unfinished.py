"""The seam between offsets that lie in the wrong partition and the transactions that hold them."""

from __future__ import annotations

import enum
from typing import Protocol

from tidelog.kernel.seams.storage import TopicPartition


class Outcome(enum.Enum):
    """What became of a producer's transaction."""

    OPEN = enum.auto()
    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    """It was decided so, or no transaction has that producer: nothing will ever commit it."""
    UNKNOWN = enum.auto()
    """Not everything could be read, or its markers decide."""


class UnfinishedTransactions(Protocol):
    """All transactions that were not completed."""

    async def outcome(self, producer_id: int, place: TopicPartition) -> Outcome:
        """Return how a producer's transaction stands; if open, it includes `place` from then on, durably.

        Waits until all transactions were read back.
        """
        ...
