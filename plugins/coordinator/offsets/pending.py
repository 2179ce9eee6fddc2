"""Offsets that transactions have committed and that count once the transaction does (KIP-447).

Of two commits of one place the one that stands later in the log wins, whenever its transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.table import Place


class PendingOffset(NamedTuple):
    """An offset in a transaction (None once a later commit counts instead), and where its record is."""

    record_offset: int
    committed: CommittedOffset | None


class EndedOffset(NamedTuple):
    """What a transaction that has ended says of one place; None for nothing."""

    group_id: str
    place: Place
    record_offset: int
    committed: CommittedOffset | None


class PendingOffsets:
    """The offsets of all open transactions."""

    def __init__(self) -> None:
        self._by_producer: dict[tuple[int, int], dict[tuple[str, Place], PendingOffset]] = {}
        self._producers: dict[str, dict[Place, set[tuple[int, int]]]] = {}

    def add(
        self, partition: int, producer_id: int, group_id: str, place: Place, pending: PendingOffset
    ) -> None:
        """A transaction of the producer commits this, written to that partition of the log."""
        transaction = (partition, producer_id)
        self._by_producer.setdefault(transaction, {})[group_id, place] = pending
        self._producers.setdefault(group_id, {}).setdefault(place, set()).add(transaction)

    def supersede(self, group_id: str, place: Place, record_offset: int) -> None:
        """The place got an offset whose record is at `record_offset`: what is before it counts no more."""
        for transaction in self._producers.get(group_id, {}).get(place, ()):
            offsets = self._by_producer[transaction]
            if offsets[group_id, place].record_offset < record_offset:
                offsets[group_id, place] = offsets[group_id, place]._replace(committed=None)

    def remove(self, group_id: str, place: Place) -> None:
        """The place was deleted, and with it what is pending there."""
        for transaction in self._producers.get(group_id, {}).get(place, set()).copy():
            del self._by_producer[transaction][group_id, place]
            self._release(transaction, group_id, place)

    def end(self, partition: int, producer_id: int) -> Sequence[EndedOffset]:
        """The producer's transaction has ended; what was pending of it, in no particular order."""
        transaction = (partition, producer_id)
        ended = self._by_producer.pop(transaction, {})
        for group_id, place in ended:
            self._release(transaction, group_id, place)
        return [EndedOffset(group_id, place, *pending) for (group_id, place), pending in ended.items()]

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def has(self, group_id: str, place: Place) -> bool:
        """Whether a transaction may still move the group there."""
        return place in self._producers.get(group_id, ())

    def places(self, group_id: str) -> Collection[Place]:
        """Everywhere that a transaction may still move the group."""
        return tuple(self._producers.get(group_id, ()))

    def forget(self, partition: int) -> None:
        """That partition of the log is gone."""
        for transaction in [key for key in self._by_producer if key[0] == partition]:
            self.end(*transaction)

    def _release(self, transaction: tuple[int, int], group_id: str, place: Place) -> None:
        places = self._producers[group_id]
        places[place].discard(transaction)
        if not places[place]:
            del places[place]
        if not places:
            del self._producers[group_id]
