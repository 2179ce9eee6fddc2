"""Moving state that earlier versions wrote to another partition than Apache Kafka does.

Versions that masked the sign bit of a hash wrote the state of every name with a negative hash to one
partition while Kafka looks for it in another one: `counterpart`. Two such partitions are loaded together, and
become active together, so that neither is used before it has what lies in the other:

1. While a partition is loaded, records that belong to its counterpart are not replayed but collected
   (`SelectedRecords`). Nearly always there are none, and that is all.
2. Otherwise both partitions are read once more for these names, and a policy decides what is moved (`Move`).
3. Copies are appended where they belong, and are on disk before
4. tombstones are appended where they were found.
5. The copies are replayed as if they had been read.

A process that ends between any two of these steps leaves the source as it was, and copies with the timestamps
of their originals: the next start does the same again. Once the tombstones are written, later starts find
nothing that has a value.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import attrs

from tidelog.kernel.seams.partition import AppendOrigin
from tidelog.plugins.coordinator.hashing import counterpart
from tidelog.plugins.coordinator.log.batches import LoadedBatch, StateRecord, encode_batch
from tidelog.plugins.coordinator.log.log_image import LogImage
from tidelog.plugins.coordinator.log.misplaced import SelectedRecords, name_in

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.seams.topics import Topic

_log = logging.getLogger(__name__)

RECORDS_PER_BATCH: Final = 500
BYTES_PER_BATCH: Final = 256 * 1024
"""Below what a batch of the internal topics may have; a single record is as large as it was."""


class Copies(NamedTuple):
    """Records to be written together; transactional with a `producer` (id, epoch)."""

    timestamp_ms: int
    records: Sequence[StateRecord]
    producer: tuple[int, int] | None = None


class Move(NamedTuple):
    """Records to copy to the right partition, and keys to remove from the wrong one."""

    copies: Sequence[Copies]
    removed: Sequence[bytes]


class RelocationPolicy(Protocol):
    """Decides about the records of one kind of log."""

    @property
    def key_types(self) -> Collection[bytes]:
        """The first two bytes of the keys that are moved; others stay where they are."""
        ...

    def partition_for(self, name: str) -> int:
        """Return the partition where the state of that name belongs."""
        ...

    async def plan(self, source: int, found: LogImage, target: int, there: LogImage) -> Move:
        """Decide between what was found in partition `source` and the state of the same names in `target`."""
        ...


@attrs.define
class Relocated:
    """Counts of what was moved, to be logged."""

    names: set[str] = attrs.field(factory=set[str])
    records: int = 0


class Relocator:
    """Carries out a policy for the partitions of one topic."""

    def __init__(self, policy: RelocationPolicy, topic: Topic, clock: Clock) -> None:
        self.moved = Relocated()
        self._policy = policy
        self._topic = topic.name
        self._partitions = topic.partitions
        self._clock = clock

    def pairs(self) -> Iterator[tuple[int, ...]]:
        """Iterate over all partitions, each together with its counterpart if that is another one."""
        count = len(self._partitions)
        for partition in range(count):
            other = counterpart(partition, count)
            if other == partition:
                yield (partition,)
            elif other > partition:
                yield partition, other

    def selection(self, partition: int) -> SelectedRecords:
        """Return what separates the misplaced records from those of a partition."""
        other = counterpart(partition, len(self._partitions))
        policy = self._policy
        return SelectedRecords(
            policy.key_types, lambda name: other != partition and policy.partition_for(name) == other
        )

    async def run(
        self, source: int, image: LogImage, read: Callable[[int, SelectedRecords], Awaitable[None]]
    ) -> tuple[int, Sequence[LoadedBatch]]:
        """Move what was found in `source`; return the target partition and the batches that are new there.

        `read(partition, selected)` reads that partition once more.

        Raises:
            BrokerError: a partition cannot be read or written; nothing was removed that is not copied.
        """
        target = counterpart(source, len(self._partitions))
        if not image.has_state:
            return target, ()
        names = _names(image)
        there = SelectedRecords(self._policy.key_types, names.__contains__)
        await read(target, there)
        move = await self._policy.plan(source, image, target, there.image)
        copied = [self._append(target, copies) for copies in _in_batches(move.copies)]
        await self._partitions[target].flush()
        tombstones = [StateRecord(key, None) for key in move.removed]
        for batch in _in_batches([Copies(image.newest_of_all_ms, tombstones)]):
            self._append(source, batch)
        await self._partitions[source].flush()
        self.moved.names |= names
        self.moved.records += sum(len(copies.records) for copies in move.copies)
        return target, copied

    def report(self) -> None:
        """Log what was moved, if anything was."""
        if self.moved.names:
            _log.info(
                "moved the state of %d name(s), %d record(s), to the partitions of %s where Apache Kafka "
                "looks for it; an earlier version of tidelog kept it in others",
                len(self.moved.names),
                self.moved.records,
                self._topic,
            )

    def _append(self, partition: int, copies: Copies) -> LoadedBatch:
        records, producer = copies.records, copies.producer
        # A partition refuses timestamps ahead of its clock, which may have been set back.
        timestamp_ms = min(copies.timestamp_ms, self._clock())
        result = self._partitions[partition].append_nowait(
            encode_batch(records, timestamp_ms, producer=producer),
            in_transaction=producer is not None,
            origin=AppendOrigin.COORDINATOR,
        )
        producer_id, epoch = producer or (-1, -1)
        return LoadedBatch(
            result.base_offset,
            [(key, value) for key, value in records],
            producer_id,
            epoch,
            producer is not None,
            timestamp_ms=timestamp_ms,
        )


def _names(image: LogImage) -> set[str]:
    keys = [key for key, _, _ in image.live()]
    return {name_in(key) for held in (keys, *image.pending.values()) for key in held}


def _in_batches(all_copies: Sequence[Copies]) -> Iterator[Copies]:
    """Split what is too large for one batch."""
    for copies in all_copies:
        batch: list[StateRecord] = []
        size = 0
        for record in copies.records:
            record_size = len(record.key) + len(record.value or b"")
            if batch and (len(batch) == RECORDS_PER_BATCH or size + record_size > BYTES_PER_BATCH):
                yield copies._replace(records=batch)
                batch, size = [], 0
            batch.append(record)
            size += record_size
        if batch:
            yield copies._replace(records=batch)
