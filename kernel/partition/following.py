"""What this broker does with a partition that another broker leads: append the leader's batches as they are.

Sources: Apache Kafka's `UnifiedLog` (`appendAsFollower`), `LeaderEpochFileCache`, and `ProducerStateManager`
(`truncateAndReload`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.kernel.errors import CorruptBatch, InvalidRecord
from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.records.batch import NO_PRODUCER_ID, BatchHeader
from tidelog.kernel.records.control import EndMarker, decode_marker
from tidelog.kernel.records.stored import earliest_offset, iter_stored, verify_stored_crc


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

        A log of an older broker has messages of the formats 0 and 1, which are appended as they are.

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
            partition.writer.write(data, header, header.base_offset, header.last_offset, epoch, marker)
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
    for stored, data in iter_stored(batches):
        header = stored
        if header.last_offset_delta < 0:
            raise CorruptBatch(f"the leader's batch at offset {header.base_offset} ends before it begins")
        if not verify_stored_crc(data, header):
            raise CorruptBatch(f"the CRC of the leader's batch at offset {header.base_offset} is wrong")
        if header.base_offset < next_offset:
            raise InvalidRecord(f"the leader's batch at offset {header.base_offset} is not at {next_offset}")
        is_marker = header.is_control and header.producer_id > NO_PRODUCER_ID
        first = earliest_offset(header, next_offset)
        if first < header.base_offset:
            header = header._replace(base_offset=first, last_offset_delta=header.last_offset - first)
        yield LeadersBatch(header, data, decode_marker(data, header) if is_marker else None)
        next_offset = header.next_offset
