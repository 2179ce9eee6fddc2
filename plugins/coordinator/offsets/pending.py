"""Offsets committed in open transactions, which count once the transaction commits (KIP-447).

Of two commits of one place the later one in the log wins, whenever its transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.changes import Place


class PendingOffset(NamedTuple):
    """An offset of a transaction (None once a later commit counts instead), and the offset of its record."""

    record_offset: int
    committed: CommittedOffset | None


class EndedOffset(NamedTuple):
    """One place of a transaction that has ended; `committed` is None when a later commit counts instead."""

    group_id: str
    place: Place
    record_offset: int
    committed: CommittedOffset | None


class PendingOffsets:
    """The offsets of all open transactions in one partition of the log.

    Attributes:
        producers: the producer ids whose transactions have an offset, by group and place; empty without any
    """

    def __init__(self) -> None:
        self.producers: dict[str, dict[Place, set[int]]] = {}
        self._by_producer: dict[int, dict[tuple[str, Place], PendingOffset]] = {}

    def add(self, producer_id: int, group_id: str, place: Place, pending: PendingOffset) -> None:
        """Add an offset to the producer's transaction; it replaces the one that it had for the place."""
        self._by_producer.setdefault(producer_id, {})[group_id, place] = pending
        self.producers.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def supersede(self, group_id: str, place: Place, record_offset: int | None = None) -> None:
        """Let a commit of the place count instead of what is pending before its record (None: before all)."""
        for producer_id in self.producers.get(group_id, {}).get(place, ()):
            offsets = self._by_producer[producer_id]
            pending = offsets[group_id, place]
            if record_offset is None or pending.record_offset < record_offset:
                offsets[group_id, place] = pending._replace(committed=None)

    def remove(self, group_id: str, place: Place) -> None:
        """Remove everything that is pending in a place."""
        for producer_id in self.producers.get(group_id, {}).get(place, set()).copy():
            del self._by_producer[producer_id][group_id, place]
            self._release(producer_id, group_id, place)

    def end(self, producer_id: int) -> Sequence[EndedOffset]:
        """End the producer's transaction; return what was pending of it, in no particular order."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id, place in ended:
            self._release(producer_id, group_id, place)
        return [EndedOffset(group_id, place, *pending) for (group_id, place), pending in ended.items()]

    def places(self, group_id: str) -> Collection[Place]:
        """Return every place in which a transaction may still commit an offset of the group."""
        return tuple(self.producers.get(group_id, ()))

    def _release(self, producer_id: int, group_id: str, place: Place) -> None:
        places = self.producers[group_id]
        places[place].discard(producer_id)
        if not places[place]:
            del places[place]
        if not places:
            del self.producers[group_id]
