"""What this broker does with a partition that another broker leads: append the leader's batches as they are.

Sources: Apache Kafka's `UnifiedLog` (`appendAsFollower`), `LeaderEpochFileCache`, and `ProducerStateManager`
(`truncateAndReload`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.kernel.errors import CorruptBatch, InvalidRecord
from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    parse_header,
    verify_crc,
)
from tidelog.kernel.records.control import EndMarker, decode_marker


class LeadersBatch(NamedTuple):
    """A whole batch as the leader has it, and the marker in it, if it is one."""

    header: BatchHeader
    data: memoryview
    marker: EndMarker | None


class Follower:
    """A partition in the role of a follower; truncating to the leader's log is `Partition.truncate_to`."""

    def __init__(self, partition: Partition) -> None:
        """Let `partition` follow: from now on only `advance_high_watermark` moves its high watermark."""
        self._partition = partition
        partition.follow()

    def append(self, batches: bytearray | memoryview) -> None:
        """Append batches of the leader with their offsets and epochs, but for an incomplete one at the end.

        Nothing is appended unless all of them are valid. Readers see them after `advance_high_watermark`.

        Raises:
            CorruptBatch: a CRC or a length is wrong.
            InvalidRecord: offsets do not grow, or are in the log already.
            StorageError: the disk refused; the batches before the one it refused are in the log.
            BrokerError: the partition was taken offline; says why.
        """
        partition = self._partition
        partition.check_online()
        for header, data, marker in list(_checked(memoryview(batches), partition.log_end_offset)):
            epoch = header.leader_epoch
            partition.write(data, header, header.base_offset, header.last_offset, epoch, marker)
            partition.leader_epoch = max(partition.leader_epoch, epoch)

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to that of the leader; it never falls."""
        watermarks = self._partition.watermarks
        if offset < watermarks.log_end_offset:
            watermarks.advance_partly(offset)
        else:
            watermarks.advance(watermarks.log_end_offset)


def _checked(batches: memoryview, next_offset: int) -> Iterator[LeadersBatch]:
    """Check the whole batches; the last one may be incomplete, as a fetch leaves it: it is fetched again."""
    position = 0
    while len(batches) - position >= HEADER_BYTES:
        header = parse_header(batches, position)
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or header.last_offset_delta < 0:
            raise CorruptBatch(f"the leader's batch at byte {position} has impossible lengths")
        if header.size > len(batches) - position:
            return
        data = batches[position : position + header.size]
        if not verify_crc(data, header):
            raise CorruptBatch(f"the CRC-32C of the leader's batch at offset {header.base_offset} is wrong")
        if header.base_offset < next_offset:
            raise InvalidRecord(f"the leader's batch at offset {header.base_offset} is not at {next_offset}")
        is_marker = header.is_control and header.producer_id > NO_PRODUCER_ID
        yield LeadersBatch(header, data, decode_marker(data, header) if is_marker else None)
        next_offset = header.next_offset
        position += header.size
