"""The metadata log: batches are appended in an epoch that this node leads, and made durable.

It lies in a partition store like any other, so segments, indexes, rolling and the recovery of a torn tail are
those of every partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from tidelog.kernel.errors import StorageError
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME, CorruptEpochCheckpoint, LeaderEpochLineage
from tidelog.kernel.pace import run_in_steps
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, Buffer, parse_header
from tidelog.kernel.seams.storage import PartitionStore, TopicPartition, region_bytes
from tidelog.plugins.metadata_kraft.encoding import MAX_BATCH_BYTES, control_batch, data_batch_in_steps

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = UUID(int=1)
_READ_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class MetadataLog:
    """`__cluster_metadata-0`; `epoch` is the one that appends are stamped with.

    `high_watermark` is the offset behind the last record that is durable.
    """

    def __init__(self, store: PartitionStore, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._epochs = self._read_epochs()
        self.epoch = self._epochs.latest
        self.last_timestamp = 0
        self.high_watermark = store.log_end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that is still there."""
        return self._store.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._store.log_end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self._store.size_bytes

    def _read_epochs(self) -> LeaderEpochLineage:
        content = self._store.read_side_file(CHECKPOINT_NAME)
        try:
            epochs = LeaderEpochLineage() if content is None else LeaderEpochLineage.decode(content)
        except CorruptEpochCheckpoint as error:
            _log.warning("the metadata log: %s; rebuilding it from the log", error)
            epochs = LeaderEpochLineage()
        # One more: an epoch may begin at the log end, of which no record was written yet.
        epochs.truncate_from_end(self._store.log_end_offset + 1)
        return epochs

    def batches(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Blocking: iterate over all batches from the one that holds `from_offset`."""
        end = self._store.log_end_offset
        while from_offset < end:
            content = b"".join(
                map(region_bytes, self._store.read_batches(from_offset, _READ_BYTES, end, wait=True).regions)
            )
            position = 0
            while len(content) - position >= HEADER_BYTES:
                header = parse_header(content, position)
                if len(content) - position < header.size:
                    break
                self._epochs.assign(header.leader_epoch, header.base_offset)
                yield header, content[position : position + header.size]
                position += header.size
                from_offset = header.next_offset
            if not position:
                raise StorageError(f"{METADATA_PARTITION}: no batch can be read at offset {from_offset}")

    def begin_epoch(self, epoch: int) -> None:
        """Blocking: record, durably, that `epoch` starts at the log's end."""
        self.epoch = epoch
        self._epochs.assign(epoch, self.end_offset)
        self._store.write_side_file(CHECKPOINT_NAME, self._epochs.encode())

    async def append(self, values: Sequence[bytes]) -> int:
        """Append framed records as one batch, encoded in steps; its size. Not durable before `flush`.

        Raises:
            OSError: the disk refused; nothing was appended.
            StorageError: the batch is too large.
        """
        now_ms = self._now_ms()
        batch = await run_in_steps(data_batch_in_steps(values, self.end_offset, self.epoch, now_ms))
        return self._append(batch, len(values), now_ms)

    def append_control(self, messages: Sequence[object]) -> int:
        """Append control records as one batch; its size. Raises as `append`."""
        now_ms = self._now_ms()
        batch = control_batch(messages, self.end_offset, self.epoch, now_ms)
        return self._append(batch, len(messages), now_ms)

    def _append(self, batch: bytearray, count: int, now_ms: int) -> int:
        if len(batch) > MAX_BATCH_BYTES:
            raise StorageError(
                f"a change of metadata takes {len(batch)} bytes, more than the {MAX_BATCH_BYTES} of a batch"
            )
        base_offset = self.end_offset
        self._store.append_batch(batch, base_offset, base_offset + count - 1, now_ms)
        self.last_timestamp = now_ms
        return len(batch)

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the batches from `offset` on, which were never flushed.

        Raises:
            OSError: the disk refused.
        """
        self._store.truncate_to(offset)

    def flush(self) -> None:
        """Blocking: make everything durable; raises OSError when that fails, and from then on."""
        # Before the flush: what is appended meanwhile may not be among it.
        end_offset = self.end_offset
        self._store.flush()
        self.high_watermark = end_offset

    def delete_before(self, offset: int) -> None:
        """Blocking: drop segments that lie wholly below `offset`."""
        self._store.raise_log_start(offset)
        self._store.delete_segments_before(offset)
        if self._epochs.truncate_from_start(offset):
            self._store.write_side_file(CHECKPOINT_NAME, self._epochs.encode())

    def close(self) -> None:
        """Blocking: make durable and close."""
        self._store.close()
