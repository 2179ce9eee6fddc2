"""What is read back of `__consumer_offsets`, taken to whose it is, by the type in a record's key."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from tidelog.plugins.coordinator.log import LoadedBatch
from tidelog.plugins.coordinator.log.durable_change import UnreadableRecord, describe_key
from tidelog.plugins.coordinator.offsets.changes import KEY_TYPES as OFFSET_KEY_TYPES

_log = logging.getLogger(__name__)

MAX_LOGGED: Final = 20
"""How many unreadable records of a partition are logged one by one: a damaged log may have millions."""
_TYPE_BYTES: Final = 2
_OFFSET_KINDS: Final = frozenset(kind.to_bytes(_TYPE_BYTES, "big") for kind in OFFSET_KEY_TYPES)

ReplayRecord: TypeAlias = Callable[[int, bytes, bytes | None], None]
"""Takes one record into memory: the number of its partition, its key and its value, None for a tombstone.

Raises UnreadableRecord.
"""
ReplayTransactional: TypeAlias = Callable[[int, int, int, bytes, bytes], None]
"""The same for an offset in a transaction; after the partition come the producer's id and the offset of the
record."""
EndTransaction: TypeAlias = Callable[[int, int, bool], None]
"""A transaction of a producer (its id) has ended in that partition; True when it was committed."""


class GroupReplay:
    """The `LogReader` of `__consumer_offsets`. A key begins with its type (int16).

    Only offsets wait for the end of a transaction. Whatever else is in one counts at once, as in Kafka, and
    so does a tombstone of an offset.
    """

    def __init__(self, transactional: ReplayTransactional, end: EndTransaction) -> None:
        self._by_type: dict[bytes, ReplayRecord] = {}
        self._transactional = transactional
        self._end = end
        self._on_settle: list[Callable[[int], Iterator[None]]] = []
        self._on_loaded: list[Callable[[int], None]] = []
        self._on_forget: list[Callable[[int], None]] = []
        self._unknown: set[bytes] = set()
        self._left_out: Counter[int] = Counter()

    def register(self, key_types: Iterable[int], replay: ReplayRecord) -> None:
        """Records whose keys are of these types go to `replay`."""
        for key_type in key_types:
            self._by_type[key_type.to_bytes(_TYPE_BYTES, "big")] = replay

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
        more = self._left_out.pop(partition, 0) - MAX_LOGGED
        if more > 0:
            _log.error("__consumer_offsets-%d has %d more records that cannot be read", partition, more)
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
            return
        by_type, in_transaction = self._by_type, batch.is_transactional
        for index, (key, value) in enumerate(batch.records):
            kind = key[:_TYPE_BYTES]
            replay = by_type.get(kind)
            try:
                if replay is None:
                    self._log_unknown(partition, kind)
                elif in_transaction and value is not None and kind in _OFFSET_KINDS:
                    offset = batch.offset_of(index)
                    self._transactional(partition, batch.producer_id, offset, key, value)
                else:
                    replay(partition, key, value)
            except UnreadableRecord as error:
                self._leave_out(partition, batch.offset_of(index), key, error)

    def _leave_out(self, partition: int, offset: int, key: bytes, error: UnreadableRecord) -> None:
        self._left_out[partition] += 1
        if self._left_out[partition] <= MAX_LOGGED:
            _log.error(
                "the record at offset %d of __consumer_offsets-%d cannot be read and is left out (%s): %s",
                offset,
                partition,
                describe_key(key),
                error,
            )

    def _log_unknown(self, partition: int, kind: bytes) -> None:
        """Log a type of key the first time it is seen.

        Raises:
            UnreadableRecord: the key is too short to have a type.
        """
        if len(kind) < _TYPE_BYTES:
            raise UnreadableRecord(f"a key of {len(kind)} byte(s) has no type")
        if kind not in self._unknown:
            self._unknown.add(kind)
            _log.warning(
                "__consumer_offsets-%d has records of type %d, which are left as they are",
                partition,
                int.from_bytes(kind, "big", signed=True),
            )
