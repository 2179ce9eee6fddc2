"""What is read back of `__consumer_offsets`, taken to whose it is, by the type in a record's key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tidelog.plugins.coordinator.log import LoadedBatch

_log = logging.getLogger(__name__)

ReplayRecord: TypeAlias = Callable[[int, bytes, bytes | None], None]
"""Takes one record into memory: the number of its partition, its key and its value, None for a tombstone."""
ReplayTransactional: TypeAlias = Callable[[int, int, int, bytes, bytes | None], None]
"""The same for a record of a transaction, with the producer's id and the record's offset after the partition.
"""
EndTransaction: TypeAlias = Callable[[int, int, bool], None]
"""A transaction of a producer (its id) has ended in that partition; True when it was committed."""


class GroupReplay:
    """The `LogReader` of `__consumer_offsets`. A key begins with its type (int16)."""

    def __init__(self, transactional: ReplayTransactional, end: EndTransaction) -> None:
        self._by_type: dict[bytes, ReplayRecord] = {}
        self._transactional = transactional
        self._end = end
        self._on_settle: list[Callable[[int], Iterator[None]]] = []
        self._on_loaded: list[Callable[[int], None]] = []
        self._on_forget: list[Callable[[int], None]] = []
        self._unknown: set[bytes] = set()

    def register(self, key_types: Iterable[int], replay: ReplayRecord) -> None:
        """Records whose keys are of these types go to `replay`."""
        for key_type in key_types:
            self._by_type[key_type.to_bytes(2, "big")] = replay

    def on_settle(self, listener: Callable[[int], Iterator[None]]) -> None:
        """Have `listener` do, in steps, what each partition needs that was read to its end."""
        self._on_settle.append(listener)

    def on_loaded(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the number of each partition that is active from now on."""
        self._on_loaded.append(listener)

    def on_forget(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the number of each partition that is gone."""
        self._on_forget.append(listener)

    def settle(self, partition: int) -> Iterator[None]:
        """See `LogReader`."""
        for listener in self._on_settle:
            yield from listener(partition)

    def loaded(self, partition: int) -> None:
        """See `LogReader`."""
        for listener in self._on_loaded:
            listener(partition)

    def forget(self, partition: int) -> None:
        """See `LogReader`."""
        for listener in self._on_forget:
            listener(partition)

    def replay(self, partition: int, batch: LoadedBatch) -> None:
        """See `LogReader`."""
        if batch.marker is not None:
            self._end(partition, batch.producer_id, batch.marker.commit)
        elif batch.is_transactional:
            for offset, (key, value) in enumerate(batch.records, batch.base_offset):
                self._transactional(partition, batch.producer_id, offset, key, value)
        else:
            by_type = self._by_type
            for key, value in batch.records:
                replay = by_type.get(key[:2])
                if replay is None:
                    self._tell_unknown(partition, key)
                else:
                    replay(partition, key, value)

    def _tell_unknown(self, partition: int, key: bytes) -> None:
        kind = key[:2]
        if kind not in self._unknown:
            self._unknown.add(kind)
            _log.warning(
                "__consumer_offsets-%d has records of type %d, which are left as they are",
                partition,
                int.from_bytes(kind, "big", signed=True),
            )
