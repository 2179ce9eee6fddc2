"""Record batches as a consumer returns them: views of what was fetched, decoded on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.records.batch import HEADER_BYTES
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.record import MAX_RECORDS_BYTES
from tidelog.kernel.records.scanner import Scanner
from tidelog.plugins.client.consumer.consumer_record import NotedBatch
from tidelog.plugins.client.errors import CorruptRecords

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord

_NO_APPEND_TIME: Final = -1


class RecordBatch:
    """A batch of records of one partition; its bytes are where they were received, without a copy.

    Attributes:
        partition: topic and partition
        header: the batch's header, with offsets, timestamps, producer and codec
        data: the whole batch, which begins with that header
        first_offset: the offset that was read from; records of the batch before it are left out
    """

    __slots__ = ("data", "first_offset", "header", "partition")

    def __init__(
        self, partition: TopicPartition, header: BatchHeader, data: memoryview, first_offset: int
    ) -> None:
        self.partition = partition
        self.header = header
        self.data = data
        self.first_offset = first_offset

    @property
    def next_offset(self) -> int:
        """Return the offset that follows the batch."""
        return self.header.next_offset

    @property
    def record_count(self) -> int:
        """Return how many records the batch has, those before `first_offset` included."""
        return self.header.record_count

    def records(self) -> list[ConsumerRecord]:
        """Return the records from `first_offset` on, keys and values as bytes.

        Raises:
            CorruptRecords: they cannot be decoded.
        """
        try:
            return self.noted().records(self.partition.topic, self.partition.partition, self.first_offset)
        except IndexError as error:
            raise self.corrupt(str(error)) from None

    def content(self) -> bytes | memoryview:
        """Return the records uncompressed; a view if they are not compressed.

        Raises:
            CorruptRecords: they cannot be decompressed.
        """
        header = self.header
        packed = self.data[HEADER_BYTES : header.size]
        if not header.codec:
            return packed
        try:
            return b"".join(unpack(header.codec, packed, MAX_RECORDS_BYTES))
        except BrokerError as error:
            raise self.corrupt(str(error)) from error

    def note(self, data: bytes, start: int, end: int, fields: BytesWriter) -> None:
        """Append where the fields of the records are, whose `content` is at `start` to `end` of the data.

        Raises:
            CorruptRecords: they are malformed.
        """
        scanner = Scanner()
        if scanner.scan(data, start, self.header.record_count, fields) > end:
            raise self.corrupt("a record is longer than the batch")
        if scanner.index != self.header.record_count:
            raise self.corrupt(f"record {scanner.index} is malformed")

    def noted(self) -> NotedBatch:
        """Return the records uncompressed, with the places of their fields.

        Raises:
            CorruptRecords: they cannot be decompressed, or are malformed.
        """
        header = self.header
        data, fields = bytes(self.content()), BytesWriter()
        self.note(data, 0, len(data), fields)
        return NotedBatch(
            data,
            fields.getvalue(),
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            self.append_time_ms,
        )

    @property
    def append_time_ms(self) -> int:
        """Return the timestamp that the log has set for all records, -1 if they have their own."""
        return self.header.max_timestamp if self.header.is_append_time else _NO_APPEND_TIME

    def corrupt(self, reason: str) -> CorruptRecords:
        """Return the error that names the batch."""
        return CorruptRecords(str(self.partition), f"the batch at offset {self.header.base_offset}: {reason}")
