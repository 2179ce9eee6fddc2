"""A state log in an internal topic, appended to as any other partition is."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.coordination.loading import LoadProgress
from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    NotCoordinator,
    StorageError,
    UnknownTopicOrPartition,
)
from tidelog.kernel.partition.partition import Isolation
from tidelog.kernel.partition.record_checks import RecordChecks
from tidelog.kernel.storage import region_bytes
from tidelog.plugins.coordinator.log.batches import decode_batches, encode_batch

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker
    from tidelog.kernel.partition import Partition
    from tidelog.kernel.partition.partition import AppendResult
    from tidelog.kernel.topics import NewTopic, Topic
    from tidelog.plugins.coordinator.log.state_log import LoadedBatch, LogReader, StateRecord

_log = logging.getLogger(__name__)

RECORDS_PER_SLICE = 1000
"""What is taken into memory before others get their turn: a millisecond or two."""
STEPS_PER_SLICE = 128
"""How many groups take up their life before others get their turn."""
MANY_RECORDS = 10_000


class TopicLog:
    """The records of one kind of coordinator, in the internal topic `spec`."""

    def __init__(self, broker: Broker, spec: NewTopic, *, load_bytes: int, codec: int = 0) -> None:
        """`load_bytes` are read at once while the log is read back; `codec` packs what is appended."""
        self.progress = LoadProgress()
        self._topics = broker.topics
        self._tasks = broker.tasks
        self._clock = broker.clock
        self._spec = spec
        self._load_bytes = load_bytes
        self._codec = codec
        self._topic: Topic | None = None
        self._active: dict[int, Partition] = {}
        self._failed: dict[int, BrokerError] = {}
        self._reader: LogReader | None = None
        broker.topics.announce_internal(spec)

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, or will have when it is made."""
        topic = self._topic or self._topics.find(self._spec.name)
        return len(topic.partitions) if topic else self._spec.partitions

    def check_active(self, partition: int) -> None:
        """See `StateLog`."""
        if partition not in self._active:
            self._explain(partition)

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        """See `StateLog`."""
        if partition not in self._active:
            self._explain(partition)
        batch = encode_batch(records, self._clock(), producer=producer, codec=self._codec)
        try:
            return self._active[partition].append(
                batch, in_transaction=producer is not None, sequenced=False, checks=RecordChecks.DONE
            )
        except (StorageError, UnknownTopicOrPartition) as error:
            raise self._lost(partition, error) from error

    async def committed(self, partition: int, result: AppendResult) -> None:
        """See `StateLog`."""
        if result.flush_due:
            self.check_active(partition)
            try:
                await self._active[partition].wait_flushed(result.last_offset)
            except (StorageError, UnknownTopicOrPartition) as error:
                raise self._lost(partition, error) from error

    async def ensure(self) -> None:
        """See `StateLog`."""
        if self._topic is None:
            await self._topics.ensure(self._spec.name)
            self._attach()

    def open(self, reader: LogReader) -> None:
        """See `StateLog`."""
        self._reader = reader
        self._topics.on_deletion(self._on_deletion)
        self._attach()

    def close(self) -> None:
        """See `StateLog`."""
        self._reader = None
        self._active.clear()

    def _explain(self, partition: int) -> None:
        """Raise why a partition is not active, unless it has just become so."""
        self._attach()
        if partition in self._active:
            return
        if partition in self._failed:
            raise self._failed[partition].with_traceback(None)
        if self._topic is None or self._reader is None:
            raise NotCoordinator(f"{self._spec.name} is not there")
        raise CoordinatorLoadInProgress(f"{self._spec.name}-{partition} is still being read")

    def _lost(self, partition: int, error: BrokerError) -> NotCoordinator:
        _log.error("%s-%d cannot be written: %s", self._spec.name, partition, error)
        return NotCoordinator(f"{self._spec.name}-{partition} cannot be written")

    def _attach(self) -> None:
        """Take the topic into use once somebody has made it, and begin to read what is in it."""
        reader = self._reader
        if self._topic is not None or reader is None:
            return
        self._topic = topic = self._topics.find(self._spec.name)
        if topic is None:
            return
        to_load: list[tuple[int, Partition]] = []
        for index, partition in enumerate(topic.partitions):
            if partition.log_end_offset > partition.log_start_offset:
                to_load.append((index, partition))
            else:
                self._active[index] = partition
                reader.loaded(index)
        if to_load:
            self.progress.partitions += len(to_load)
            self._tasks.once(f"load {topic.name}", lambda: self._load(topic, to_load))

    def _on_deletion(self, topic: Topic) -> None:
        if topic is not self._topic:
            return
        self._active.clear()
        self._failed.clear()
        if self._reader is not None:
            # Whose state goes depends on how many partitions there were, so the topic is given up last.
            for index in range(len(topic.partitions)):
                self._reader.forget(index)
        self._topic = None

    async def _load(self, topic: Topic, partitions: Sequence[tuple[int, Partition]]) -> None:
        began = trio.current_time()
        for index, partition in partitions:
            failure = await self._load_partition(topic, index, partition)
            if self._reader is not None and self._is_read(topic):
                if failure is None:
                    self._active[index] = partition
                    self._reader.loaded(index)
                else:
                    _log.error("%s-%d cannot be read: %s", topic.name, index, failure)
                    self._failed[index] = NotCoordinator(f"{topic.name}-{index} cannot be read: {failure}")
            self.progress.loaded_partitions += 1
        self.progress.milliseconds = round((trio.current_time() - began) * 1000)
        _log.info(
            "read %d records of %s in %d ms", self.progress.records, topic.name, self.progress.milliseconds
        )

    async def _load_partition(self, topic: Topic, index: int, partition: Partition) -> BrokerError | None:
        """Read a partition to its end and let it settle; why that is not possible."""
        offset, end = partition.log_start_offset, partition.log_end_offset
        unfrozen = offset
        while offset < end and self._is_read(topic):
            start = offset
            try:
                batches, offset, size = await trio.to_thread.run_sync(self._read, partition, start)
            except BrokerError as error:
                return error
            self.progress.bytes += size
            await self._apply(topic, index, batches)
            if offset - unfrozen >= MANY_RECORDS:
                # What was read stays: to go through it at every full collection would hold up all requests.
                gc.freeze()
                unfrozen = offset
            if offset == start:
                break
        await self._settle(topic, index)
        if offset - partition.log_start_offset >= MANY_RECORDS:
            gc.freeze()
        return None

    async def _settle(self, topic: Topic, index: int) -> None:
        if self._reader is None or not self._is_read(topic):
            return
        for count, _ in enumerate(self._reader.settle(index), 1):
            if count % STEPS_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
                if not self._is_read(topic):
                    return

    def _is_read(self, topic: Topic) -> bool:
        """Return whether what a topic holds is still wanted: it is there, and this log is open."""
        return topic is self._topic and self._reader is not None

    def _read(self, partition: Partition, offset: int) -> tuple[list[LoadedBatch], int, int]:
        """Blocking: batches from `offset` on, the offset behind them, and how many bytes they are."""
        found = partition.read(offset, self._load_bytes, Isolation.READ_UNCOMMITTED, wait=True)
        data = b"".join(region_bytes(region) for region in found.regions)
        batches, next_offset = decode_batches(memoryview(data), offset)
        return batches, next_offset, len(data)

    async def _apply(self, topic: Topic, index: int, batches: Sequence[LoadedBatch]) -> None:
        since_checkpoint = 0
        for batch in batches:
            if self._reader is None or not self._is_read(topic):
                return
            self._reader.replay(index, batch)
            count = len(batch.records)
            self.progress.records += count
            since_checkpoint += count + 1
            if since_checkpoint >= RECORDS_PER_SLICE:
                since_checkpoint = 0
                await trio.lowlevel.checkpoint()
