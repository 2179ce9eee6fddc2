"""Fetched data of one partition: record batches, and their records decoded on demand."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.records.batch import iter_batches
from tidelog.kernel.records.record import Record, iter_records
from tidelog.plugins.client.errors import CorruptRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.kernel.records import BatchHeader
    from tidelog.kernel.seams.storage import TopicPartition

_MARKER: Final = struct.Struct(">hh")
_ABORT: Final = 0


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
    """

    partition: TopicPartition
    offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    data: memoryview
    aborted: Sequence[tuple[int, int]] = ()

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield every whole batch with its header, transaction markers included.

        Raises:
            CorruptRecords: the data are no batches of format v2, or a CRC is wrong.
        """
        try:
            yield from iter_batches(self.data)
        except BrokerError as error:
            raise CorruptRecords(str(self.partition), str(error)) from error

    def records(self) -> Iterator[Record]:
        """Yield the records from `offset` on, without markers and records of aborted transactions.

        Raises:
            CorruptRecords: the data cannot be decoded.
        """
        for header, batch in self._visible():
            try:
                yield from (record for record in iter_records(batch, header) if record.offset >= self.offset)
            except BrokerError as error:
                raise CorruptRecords(str(self.partition), str(error)) from error

    def next_offset(self) -> int:
        """Return the offset to fetch next.

        Raises:
            CorruptRecords: the data contain no whole batch, so that the reader cannot advance.
        """
        following = self.offset
        for header, _ in self.batches():
            following = max(following, header.next_offset)
        if following == self.offset and self.data:
            raise CorruptRecords(
                str(self.partition), f"{len(self.data)} bytes at offset {self.offset} hold no whole batch"
            )
        return following

    def _visible(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches outside of aborted transactions, which end at their producer's abort marker."""
        waiting = sorted(self.aborted, key=lambda transaction: transaction[1], reverse=True)
        aborting: set[int] = set()
        for header, batch in self.batches():
            while waiting and waiting[-1][1] <= header.last_offset:
                aborting.add(waiting.pop()[0])
            if header.is_control:
                if _is_abort(header, batch):
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                yield header, batch


def _is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch is an abort marker; its record's key is int16 version, int16 type."""
    key = next((record.key for record in iter_records(batch, header)), None)
    return key is not None and len(key) >= _MARKER.size and _MARKER.unpack_from(key)[1] == _ABORT
