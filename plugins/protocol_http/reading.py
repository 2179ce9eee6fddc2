"""Records of partitions from given positions on, and waiting for more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import trio

from tidelog.kernel.errors import OffsetOutOfRange, StorageError
from tidelog.kernel.records.batch import MAGIC_V2
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.records.stored import as_batch, iter_verified, unpacking_memory
from tidelog.kernel.seams.partition import AppendWaiter, Isolation
from tidelog.kernel.seams.storage import FileRegion, LogSlice, WouldBlock, region_bytes
from tidelog.plugins.protocol_http.formats import FetchedRecord
from tidelog.plugins.protocol_http.interception import RequestingClient, shown_in_thread

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.seams.storage import AbortedTransaction
    from tidelog.kernel.seams.wire import WireContext

BYTES_ON_THE_LOOP: Final = 64 * 1024
"""Larger slices of a log, and compressed ones, are decoded in a thread."""
RECORDS_ON_THE_LOOP: Final = 500
"""More records than these are decoded in a thread: they take half a millisecond."""

Show: TypeAlias = Callable[[LogSlice], LogSlice]
Partition: TypeAlias = tuple[str, int]
"""The name of a topic and the number of a partition."""


class ReadLimits(NamedTuple):
    """Where reading stops, behind the first record; `max_bytes` counts keys and values."""

    max_bytes: int
    max_records: int = 100_000
    isolation: Isolation = Isolation.READ_UNCOMMITTED


class Positions:
    """Positions in partitions, each read from there on; at the end of all of them `read` waits."""

    def __init__(
        self, broker: WireContext, client: RequestingClient, positions: Mapping[Partition, int]
    ) -> None:
        """`client` is the one that gets the records."""
        self._broker = broker
        self._client = client
        self.next: dict[Partition, int] = dict(positions)
        self._turn = 0
        self._stopped = False
        self._changed = trio.Event()

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for: no one reads on, or the broker stops."""
        return self._stopped or self._broker.topics.closing

    def replace(self, positions: Mapping[Partition, int]) -> None:
        """Read other partitions from now on; a read that waits continues with these."""
        self.next = dict(positions)
        self._changed.set()

    def stop(self) -> None:
        """End the read that waits, and all later ones."""
        self._stopped = True
        self._changed.set()

    async def read(self, limits: ReadLimits, wait_seconds: float = math.inf) -> list[FetchedRecord]:
        """Return the next records, without moving the positions; nothing after so many seconds.

        Raises:
            OffsetOutOfRange: a position is no longer, or not yet, in its log.
            BrokerError: a partition cannot be read.
        """
        deadline = trio.current_time() + wait_seconds
        while True:
            found = await self._read_once(limits)
            # Some may have been taken away while a thread read them.
            found = [each for each in found if (each.topic, each.partition) in self.next]
            if found or self.ended or trio.current_time() >= deadline:
                return found
            await self._wait(limits.isolation, deadline)

    async def _read_once(self, limits: ReadLimits) -> list[FetchedRecord]:
        """Read each partition, beginning with another one each time, so that none is starved."""
        partitions = list(self.next)
        if not partitions:
            return []
        self._turn += 1
        first = self._turn % len(partitions)
        found: list[FetchedRecord] = []
        left_bytes = limits.max_bytes
        for name in partitions[first:] + partitions[:first]:
            if found and (left_bytes <= 0 or len(found) >= limits.max_records):
                break
            position = self.next.get(name)
            # Revoked while another one was read.
            if position is None:
                continue
            left = limits._replace(max_bytes=left_bytes, max_records=limits.max_records - len(found))
            log = self._broker.replicas.log_of(*name)
            show = shown_in_thread(self._broker, self._client, log)
            records, next_offset = await _read_records(log, position, left, show)
            log.traffic.fetches += 1
            if records:
                found += [FetchedRecord(*name, record) for record in records]
                size_bytes = sum(map(_size, records))
                log.traffic.bytes_out += size_bytes
                left_bytes -= size_bytes
            # Markers and aborted transactions: no client gets them, so they are passed over at once.
            elif self.next.get(name) == position:
                self.next[name] = next_offset
        return found

    def advance(self, delivered: Iterable[FetchedRecord]) -> None:
        """Move the positions behind records that were delivered, of partitions that are still read."""
        for topic, partition, record in delivered:
            if (topic, partition) in self.next:
                self.next[topic, partition] = record.offset + 1

    async def _wait(self, isolation: Isolation, deadline: float) -> None:
        grown = self._changed = trio.Event()
        waiter = AppendWaiter(1, grown.set)
        waited: list[UnifiedLog] = []
        try:
            for (topic, partition), position in self.next.items():
                log = self._broker.replicas.log_of(topic, partition)
                # No checkpoint lies between this look and the waiter, so nothing is appended unnoticed.
                if log.readable_end(isolation) > position:
                    return
                log.add_waiter(waiter, isolation)
                waited.append(log)
            if self.ended:
                return
            with trio.move_on_at(deadline):
                await grown.wait()
        finally:
            for log in waited:
                log.remove_waiter(waiter)


async def _read_records(
    log: UnifiedLog, offset: int, limits: ReadLimits, show: Show | None
) -> tuple[list[Record], int]:
    """Return records from `offset` on, at least one if there is any, and the offset behind them.

    `show` is what interceptors do with a slice of the log, in a thread.

    Raises:
        BrokerError: the log cannot be read there.
    """
    while True:
        try:
            if show is not None:
                raise WouldBlock
            records, next_offset = _read(log, offset, limits, None, wait=False)
            await trio.lowlevel.checkpoint()
        except WouldBlock:
            in_thread = partial(_read, log, offset, limits, show, wait=True)
            records, next_offset = await log.unpacking.read(in_thread)
        if records or next_offset == offset:
            return records, next_offset
        offset = next_offset


def _read(
    log: UnifiedLog, offset: int, limits: ReadLimits, show: Show | None, *, wait: bool
) -> tuple[list[Record], int]:
    isolation = limits.isolation
    found = log.read(offset, max(limits.max_bytes, 1), isolation, wait=wait)
    if not found.size:
        if offset > log.readable_end(isolation):
            raise OffsetOutOfRange(
                f"{log.topic_partition}: offset {offset} is above {log.readable_end(isolation)}, where what "
                "can be read ends"
            )
        return [], offset
    if not wait and not _is_quick(found):
        raise WouldBlock
    aborted: Sequence[AbortedTransaction] = ()
    if isolation is Isolation.READ_COMMITTED:
        aborted = log.aborted_transactions(offset, found, wait=wait)
    if show is not None:
        found = show(found)
    try:
        content = b"".join(region_bytes(region) for region in found.regions)
    except OSError as error:
        raise StorageError(f"{log.topic_partition} cannot be read: {error}") from error
    return _decode(log, memoryview(content), offset, limits, aborted, wait=wait)


def _decode(
    log: UnifiedLog,
    content: memoryview,
    offset: int,
    limits: ReadLimits,
    aborted: Sequence[AbortedTransaction],
    *,
    wait: bool,
) -> tuple[list[Record], int]:
    records: list[Record] = []
    left_bytes, next_offset = limits.max_bytes, offset
    for header, data in iter_verified(content):
        if not (header.is_control or (header.is_transactional and _is_aborted(header, aborted))):
            if not wait and (
                header.codec or header.magic < MAGIC_V2 or header.record_count > RECORDS_ON_THE_LOOP
            ):
                raise WouldBlock
            for record in _records(log, header, data):
                if record.offset < offset:
                    continue
                if records and (left_bytes <= 0 or len(records) >= limits.max_records):
                    return records, next_offset
                records.append(record)
                left_bytes -= _size(record)
                next_offset = record.offset + 1
        next_offset = max(next_offset, header.next_offset)
    return records, next_offset


def _records(log: UnifiedLog, header: BatchHeader, data: memoryview) -> Iterator[Record]:
    if not header.codec and header.magic >= MAGIC_V2:
        yield from iter_records(data, header)
        return
    with log.unpacking.memory.hold(unpacking_memory(data, header)):
        header, data = as_batch(header, data)
        yield from iter_records(data, header)


def _is_quick(found: LogSlice) -> bool:
    return found.size <= BYTES_ON_THE_LOOP and all(
        region.file.resident(region.position, region.size)
        for region in found.regions
        if isinstance(region, FileRegion)
    )


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
        for each in aborted
    )


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
