"""Fetched data of one partition: record batches, and their records decoded on demand."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.records.batch import LOG_OVERHEAD_BYTES, BatchHeader, Buffer
from tidelog.kernel.records.control import decode_marker
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.records.stored import as_batch, iter_stored, iter_verified
from tidelog.plugins.client.errors import CorruptRecords

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import FetchedBatch

B = TypeVar("B", bound=Buffer)

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
"""Of the bytes of a batch, or of a message, after the length."""


@attrs.frozen
class Fetched:
    """Data of one partition in a Fetch response.

    Attributes:
        partition: topic and partition
        offset: the requested offset
        high_watermark: the partition's high watermark
        last_stable_offset: the partition's last stable offset, -1 when it is unknown
        log_start_offset: the partition's log start offset, -1 when it is unknown
        data: record batches; the last may be incomplete, the first may begin before `offset`
        aborted: (producer id, first offset) of the aborted transactions that overlap `data`; empty unless
            the request was for committed records only
        preferred_replica: node id of the replica to read from instead (KIP-392), -1 for none
    """

    partition: TopicPartition
    offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    data: memoryview
    aborted: Sequence[tuple[int, int]] = ()
    preferred_replica: int = -1

    @property
    def is_cut(self) -> bool:
        """Return whether the limits of the fetch have cut the first batch, so that nothing can be read.

        Brokers before Apache Kafka 0.10.1 do not return it whole if it is larger than the limits.
        """
        size = len(self.data)
        if size < LOG_OVERHEAD_BYTES:
            return size > 0
        (length,) = _LENGTH.unpack_from(self.data, _LENGTH_AT)
        return bool(LOG_OVERHEAD_BYTES + length > size)

    def batches(self) -> Iterator[FetchedBatch]:
        """Yield every whole batch with its header, control batches included.

        Each message of the formats 0 and 1, which a log may have that is so old, becomes a batch.

        Raises:
            CorruptRecords: the data are no batches, or a CRC is wrong.
        """
        with self._named():
            yield from starmap(as_batch, iter_verified(self.data))

    def committed_batches(self, *, check_crcs: bool = True) -> Iterator[FetchedBatch]:
        """Yield the batches with records from `offset` on, without markers and aborted transactions.

        Each is whole, so the first one may begin before `offset`. Without `check_crcs` none is verified.

        Raises:
            CorruptRecords: the data are no batches, a CRC or a control batch is wrong.
        """
        with self._named():
            stored = (iter_verified if check_crcs else iter_stored)(self.data)
            for header, batch in committed_batches(starmap(as_batch, stored), self.aborted):
                if header.last_offset >= self.offset:
                    yield header, batch

    def records(self) -> Iterator[Record]:
        """Yield the records from `offset` on, without markers and records of aborted transactions.

        Raises:
            CorruptRecords: the data cannot be decoded.
        """
        for header, batch in self.committed_batches():
            with self._named():
                yield from (record for record in iter_records(batch, header) if record.offset >= self.offset)

    def next_offset(self) -> int:
        """Return the offset to fetch next; CRCs are not verified.

        Raises:
            CorruptRecords: the data contain no whole batch, so that the reader cannot advance.
        """
        return self._next_offset

    @cached_property
    def _next_offset(self) -> int:
        # What fetches ahead asks for it, and then what has read the batches.
        following = self.offset
        with self._named():
            for header, _ in iter_stored(self.data):
                following = max(following, header.next_offset)
        if following == self.offset and self.data:
            raise CorruptRecords(
                str(self.partition), f"{len(self.data)} bytes at offset {self.offset} hold no whole batch"
            )
        return following

    @contextmanager
    def _named(self) -> Generator[None]:
        """Name the partition in an error of the record format."""
        try:
            yield
        except BrokerError as error:
            raise CorruptRecords(str(self.partition), str(error)) from error


def committed_batches(
    batches: Iterable[tuple[BatchHeader, B]], aborted: Iterable[tuple[int, int]] = ()
) -> Iterator[tuple[BatchHeader, B]]:
    """Yield the batches that are neither control batches nor part of an aborted transaction, whole.

    `batches` are consecutive ones below the last stable offset. `aborted` has (producer id, first offset) of
    each aborted transaction that overlaps them; a transaction ends at the abort marker of its producer.

    Raises:
        CorruptBatch: a control batch is malformed.
        UnsupportedCompression: the codec of a control batch is unknown.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for header, batch in batches:
        while waiting and waiting[-1][1] <= header.last_offset:
            aborting.add(waiting.pop()[0])
        if header.is_control:
            if header.producer_id in aborting and _is_abort(header, batch):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield header, batch


def _is_abort(header: BatchHeader, batch: Buffer) -> bool:
    marker = decode_marker(batch, header)
    return marker is not None and not marker.commit
