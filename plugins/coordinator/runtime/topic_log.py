"""A state log in an internal topic, and the internal topics of coordinators with Apache Kafka's settings.

One replica each: a single broker has no place for a second one, and with Kafka's default of three it could
never create the topics. Source: the settings of Kafka 4.4's internal topics.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    NotCoordinator,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
)
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
from tidelog.kernel.seams.partition import AppendOrigin
from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.runtime.batches import encode_batch
from tidelog.plugins.coordinator.runtime.loading import PartitionLoader, has_records

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.replica import Partition
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext
    from tidelog.kernel.seams.partition import AppendResult
    from tidelog.kernel.topics import Topic
    from tidelog.plugins.coordinator.runtime.batches import StateRecord
    from tidelog.plugins.coordinator.runtime.state_log import LogReader

_log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
LOST: Final = (NotLeaderOrFollower, StorageError, UnknownTopicOrPartition)
"""A partition that refuses with one of these is no longer this broker's to coordinate."""
REFUSAL_INTERVAL_SECONDS: Final = 60.0
"""How often it is logged that a partition cannot be written."""


class TopicLog:
    """The records of one kind of coordinator, in the internal topic `spec`."""

    def __init__(
        self, broker: CoordinatorContext, spec: TopicSpec, *, load_bytes: int, codec: int = 0
    ) -> None:
        """Register the topic; it is read `load_bytes` at a time, and batches are compressed with `codec`."""
        self.progress = CoordinatorLoadCounts()
        self._topics = broker.topics
        self._tasks = broker.tasks
        self._clock = broker.clock
        self._spec = spec
        self._load_bytes = load_bytes
        self._codec = codec
        self._topic: Topic | None = None
        self._active: dict[int, UnifiedLog] = {}
        self._loading: dict[int, PartitionLoader] = {}
        self._failed: dict[int, BrokerError] = {}
        self._queue: deque[PartitionLoader] = deque()
        self._is_loading = False
        self._reader: LogReader | None = None
        self._refusals = RateLimit(REFUSAL_INTERVAL_SECONDS)
        broker.topics.register_internal_topic(spec)

    @property
    def partition_count(self) -> int:
        """The number of partitions, also while the topic does not exist yet."""
        topic = self._topic or self._topics.find(self._spec.name)
        return len(topic.partitions) if topic else self._spec.partitions

    def check_active(self, partition: int) -> None:
        """Check that a partition is loaded and not lost; raises as `StateLog.check_active`."""
        if partition not in self._active:
            self._explain(partition)

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        """Append the records in one batch; raises as `StateLog.append`."""
        if partition not in self._active:
            self._explain(partition)
        batch = encode_batch(records, self._clock(), producer=producer, codec=self._codec)
        try:
            return self._active[partition].append_nowait(
                batch, in_transaction=producer is not None, origin=AppendOrigin.COORDINATOR
            )
        except LOST as error:
            raise self._lost(partition, error) from error

    async def committed(self, partition: int, result: AppendResult) -> None:
        """Wait until what was appended may be acknowledged."""
        if result.flush_due:
            self.check_active(partition)
            try:
                await self._active[partition].wait_flushed(result.last_offset)
            except LOST as error:
                raise self._lost(partition, error) from error

    async def ensure(self) -> None:
        """Create the topic if there is none."""
        if self._topic is None:
            await self._topics.ensure(self._spec.name)
            self._attach()

    def open(self, reader: LogReader) -> None:
        """Start loading the topic, now or once it exists."""
        self._reader = reader
        self._attach()

    def close(self) -> None:
        """Stop loading and refuse appends."""
        self._reader = None
        self._stop_loading()
        self._active.clear()

    def _stop_loading(self) -> None:
        for loader in self._loading.values():
            loader.stop()
        self._loading.clear()

    def _explain(self, partition: int) -> None:
        """Raise the reason why a partition is not active, unless it has just become so."""
        self._attach()
        if partition in self._active:
            return
        if partition in self._failed:
            raise self._failed[partition].with_traceback(None)
        if self._topic is None or self._reader is None:
            raise NotCoordinator(f"{self._spec.name} does not exist")
        if partition not in self._loading:
            raise NotCoordinator(f"another broker leads {self._spec.name}-{partition}")
        raise CoordinatorLoadInProgress(f"{self._spec.name}-{partition} is still being loaded")

    def _lost(self, partition: int, error: BrokerError) -> NotCoordinator:
        # A full disk refuses what every member and producer does.
        suppressed = self._refusals.admit(str(partition))
        if suppressed is not None:
            again = f" (and {suppressed} times more before)" if suppressed else ""
            _log.error("%s-%d cannot be written: %s%s", self._spec.name, partition, error, again)
        return NotCoordinator(f"{self._spec.name}-{partition} cannot be written")

    def _attach(self) -> None:
        """Start loading the topic once it exists."""
        reader = self._reader
        if self._topic is not None or reader is None:
            return
        self._topic = topic = self._topics.find(self._spec.name)
        if topic is None:
            return
        led = [partition.log for partition in topic.partitions if partition.is_leader]
        # What needs no reading is active at once, and before all others.
        for log in sorted(led, key=has_records):
            self._load(log.topic_partition.partition, log, reader)

    def _load(self, number: int, log: UnifiedLog, reader: LogReader) -> None:
        """Load a partition that this broker leads from now on."""
        if not has_records(log):
            self._active[number] = log
            reader.loaded(number)
            return
        loader = PartitionLoader(number, log, reader, self.progress, self._load_bytes)
        self._loading[number] = loader
        self._queue.append(loader)
        self.progress.partitions += 1
        if not self._is_loading:
            self._is_loading = True
            self._tasks.once(f"load {self._spec.name}", self._load_queued)

    def _unload(self, number: int, reader: LogReader) -> None:
        """Drop the state of a partition that is gone, or that another broker leads from now on."""
        loader = self._loading.pop(number, None)
        if loader is not None:
            loader.stop()
        self._active.pop(number, None)
        self._failed.pop(number, None)
        reader.forget(number)

    def follow(self, change: ImageChange) -> None:
        """Load partitions that this broker leads from now on, and drop those that are gone or lost."""
        topic, reader = self._topic, self._reader
        if topic is None or reader is None or topic.name not in change.delta.topics:
            return
        if self._topics.find(topic.name) is not topic:
            # Which state is dropped depends on the number of partitions, so the topic is released last.
            for number in range(len(topic.partitions)):
                self._unload(number, reader)
            self._topic = None
            return
        for number, partition in enumerate(topic.partitions):
            if change.before.partition(partition.topic_partition) != change.image.partition(
                partition.topic_partition
            ):
                self._leadership_changed(number, partition, reader)

    def _leadership_changed(self, number: int, partition: Partition, reader: LogReader) -> None:
        held = number in self._active or number in self._loading
        if not partition.is_leader:
            self._unload(number, reader)
        elif not held:
            self._failed.pop(number, None)
            self._load(number, partition.log, reader)

    async def _load_queued(self) -> None:
        began = trio.current_time()
        try:
            while self._queue:
                loader = self._queue.popleft()
                if not loader.stopped:
                    await self._load_one(loader)
                self.progress.loaded_partitions += 1
        finally:
            # After an error that is not one of the log, the next partition to load begins again.
            self._is_loading = False
        self.progress.milliseconds += round((trio.current_time() - began) * 1000)
        _log.info(
            "read %d records of %s in %d ms",
            self.progress.records,
            self._spec.name,
            self.progress.milliseconds,
        )

    async def _load_one(self, loader: PartitionLoader) -> None:
        """Load a partition, and activate it or note why it cannot be."""
        number, name = loader.number, f"{self._spec.name}-{loader.number}"
        try:
            await loader.load()
        except BrokerError as error:
            failure: BrokerError | None = error
        else:
            failure = None
        if loader.stopped or self._reader is None:
            return
        del self._loading[number]
        if failure is None:
            self._active[number] = loader.log
            self._reader.loaded(number)
        else:
            _log.error("%s cannot be read: %s", name, failure)
            self._failed[number] = NotCoordinator(f"{name} cannot be read: {failure}")


def group_log(broker: CoordinatorContext) -> TopicLog:
    """Return the log of groups and their offsets."""
    config = broker.config
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config[keys.OFFSETS_TOPIC_SEGMENT_BYTES]),
    }
    return TopicLog(
        broker,
        TopicSpec(OFFSETS_TOPIC, config[keys.OFFSETS_TOPIC_NUM_PARTITIONS], config=settings),
        load_bytes=config[keys.OFFSETS_LOAD_BUFFER_SIZE],
        codec=config[keys.OFFSETS_TOPIC_COMPRESSION_CODEC],
    )


def transaction_log(broker: CoordinatorContext) -> TopicLog:
    """Return the log of transactions."""
    config = broker.config
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(config[keys.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
        "unclean.leader.election.enable": "false",
    }
    return TopicLog(
        broker,
        TopicSpec(TRANSACTION_TOPIC, config[keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS], config=settings),
        load_bytes=config[keys.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
    )


def has_state(broker: CoordinatorContext) -> bool:
    """Return whether there is any state of coordinators to load."""
    return any(broker.topics.find(name) is not None for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC))
