"""What a partition does that another broker leads: append what the leader has, and cut off what it has not.

Sources: seed 002, "Follower append", "LeaderEpochFileCache", "ProducerStateManager" (`truncateAndReload`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel.errors import CorruptBatch, InvalidRecord
from tidelog.kernel.partition.epochs import CHECKPOINT_NAME
from tidelog.kernel.partition.loading import restore_producers
from tidelog.kernel.partition.snapshots import remove_snapshots
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    parse_header,
    verify_crc,
)
from tidelog.kernel.records.control import EndMarker, decode_marker

if TYPE_CHECKING:
    from tidelog.kernel.partition.partition import Partition


class LeadersBatch(NamedTuple):
    """A whole batch as the leader has it, and the marker in it, if it is one."""

    header: BatchHeader
    data: memoryview
    marker: EndMarker | None


def append_verbatim(partition: Partition, batches: bytearray | memoryview) -> None:
    """Append the leader's batches with their offsets and epochs; see `Partition.append_as_follower`."""
    for header, data, marker in list(_checked(memoryview(batches), partition.log_end_offset)):
        epoch = header.leader_epoch
        partition.write(data, header, header.base_offset, header.last_offset, epoch, marker)
        partition.leader_epoch = max(partition.leader_epoch, epoch)


def _checked(batches: memoryview, next_offset: int) -> Iterator[LeadersBatch]:
    """The whole batches; the last one may be cut short, as a fetch leaves it, and then comes again."""
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


def cut_back(partition: Partition, offset: int) -> None:
    """Blocking: drop what the leader has not; see `Partition.truncate_to`."""
    if offset >= partition.log_end_offset:
        return
    store, watermarks = partition.store, partition.watermarks
    # Before anything goes, so that nobody is shown what is about to.
    high_watermark = min(watermarks.high_watermark, offset)
    watermarks.hold_back(partition.log_start_offset, high_watermark)
    forgotten = partition.side_writes.forget()
    store.truncate_to(offset)
    end = partition.log_end_offset = store.log_end_offset
    partition.commit.truncated(end)
    remove_snapshots(store, above=end)
    if partition.epochs.truncate_from_end(end) or CHECKPOINT_NAME in forgotten:
        store.write_side_file(CHECKPOINT_NAME, partition.epochs.encode())
    # Transactions that end above the high watermark hold readers back: no snapshot tells of these.
    restore_producers(partition, newest_snapshot=min(high_watermark, end), whole_log=False)
    watermarks.set_back(partition.log_start_offset, min(high_watermark, end))
