"""What goes over when a transactional id lies in the wrong partition of `__transaction_state`.

Both partitions may have the id, with different producers, since a directory that changed hands was written by
brokers that look in different places. The newer one stays, by the timestamp of the record, except that one
with something to complete stays where it belongs. One that goes though it has something to complete is
completed first (`Orphans`): an open transaction is aborted, a decided one gets its markers. Otherwise it
would hold up readers of committed data for ever.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.kernel.errors import CorruptBatch
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.log.log_image import LogImage
from tidelog.plugins.coordinator.log.misplaced import name_in
from tidelog.plugins.coordinator.log.relocation import Copies, Move
from tidelog.plugins.coordinator.records.transactions import KEY_VERSION, decode_value
from tidelog.plugins.coordinator.transactions.states import AT_REST
from tidelog.plugins.coordinator.transactions.table import Held
from tidelog.plugins.coordinator.transactions.transaction import Transaction


class TransactionRelocation:
    """The `RelocationPolicy` of `__transaction_state`; `orphan` takes what has to be completed first."""

    key_types = frozenset((KEY_VERSION.to_bytes(2, "big"),))

    def __init__(self, partition_for: Callable[[str], int], orphan: Callable[[Held], None]) -> None:
        self._partition_for = partition_for
        self._orphan = orphan

    def partition_for(self, name: str) -> int:
        """See `RelocationPolicy`."""
        return self._partition_for(name)

    async def plan(self, source: int, found: LogImage, target: int, there: LogImage) -> Move:
        """See `RelocationPolicy`."""
        copies: list[Copies] = []
        removed: list[bytes] = []
        for key, entry, value in found.live():
            name, rival = name_in(key), there.entries.get(key)
            ours = _decoded(name, value)
            theirs = None if rival is None else _decoded(name, rival.value)
            is_newer = rival is None or rival.timestamp_ms <= entry.timestamp_ms
            if is_newer and not _must_stay(theirs, ours):
                copies.append(Copies(entry.timestamp_ms, [StateRecord(key, value)]))
                removed.append(key)
            elif _is_at_rest(ours) or _same_producer(ours, theirs):
                removed.append(key)
            elif ours is not None:
                self._orphan(Held(source, ours))
        return Move(copies, removed)


def _decoded(name: str, value: bytes | None) -> Transaction | None:
    try:
        return None if value is None else decode_value(name, value)
    except CorruptBatch:
        return None


def _is_at_rest(transaction: Transaction | None) -> bool:
    return transaction is None or transaction.state in AT_REST


def _same_producer(one: Transaction | None, other: Transaction | None) -> bool:
    return one is not None and other is not None and one.producer_id == other.producer_id


def _must_stay(theirs: Transaction | None, ours: Transaction | None) -> bool:
    return not _is_at_rest(theirs) and not _same_producer(ours, theirs)
