"""Record accumulator: records that wait, as batches per partition, within bounds of bytes and of records.

The module is compiled where there is a C compiler, and runs as it is elsewhere.

A batch closes when the next record does not fit, or when it is sent. Records of a topic whose partitions are
not known yet wait in one batch of the topic, and move to those of partitions afterwards.

Source: Apache Kafka, `RecordAccumulator`.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ClientError, QueueFull, RecordTooLarge
from tidelog.plugins.client.producer.delivery import AsyncDelivery, Batch, Delivery, PendingRecord
from tidelog.plugins.client.producer.partitioners import STICKY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.plugins.client.producer.partitioners import Choose
    from tidelog.plugins.client.producer.record_encoder import EncodedHeaders
    from tidelog.plugins.client.producer.settings import ProducerSettings

D = TypeVar("D", bound=PendingRecord)

RECORD_OVERHEAD_BYTES: Final = 21
"""Most bytes of a record beside key, value and headers: its length, attributes, deltas and their lengths."""
HEADER_OVERHEAD_BYTES: Final = 10
NO_PARTITION: Final = -1

# Not the generator of the process: a program that has a client may have seeded that one.
_random: Final = random.Random()


class PartitionQueue:
    """Batches of one partition.

    Attributes:
        batches: to be sent, in order; the last one may be open
        open: that one, to which records are added; None without
        in_flight: sent and not answered, in the order of sending
        retry_at: nothing is sent before that time
        failures: attempts that failed since the last success
        is_encoding: a thread compresses the first batch
        is_known: the broker has a batch with these numbers
        next_sequence: the one that the next new batch gets
        producer_id: whose sequence numbers they are, with `epoch`; -1 before the first batch
        needs_epoch: a batch failed, so that the numbers after it need a new epoch
    """

    __slots__ = (
        "batches",
        "epoch",
        "failures",
        "in_flight",
        "is_encoding",
        "is_known",
        "needs_epoch",
        "next_sequence",
        "open",
        "partition",
        "producer_id",
        "retry_at",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None
        self.in_flight: list[Batch] = []
        self.retry_at = 0.0
        self.failures = 0
        self.is_encoding = False
        self.is_known = False
        self.producer_id = -1
        self.epoch = -1
        self.next_sequence = 0
        self.needs_epoch = False

    def take_first(self) -> Batch:
        """Remove the first batch, which is sent; no record is added to it any more."""
        batch = self.batches.popleft()
        batch.is_closed = True
        if batch is self.open:
            self.open = None
        return batch

    def close_open(self) -> None:
        """Close the open batch."""
        if self.open is not None:
            self.open.is_closed = True
            self.open = None

    def put_back(self, batch: Batch) -> None:
        """Put a batch that has to be sent again in front of those that were sent after it."""
        position = 0
        for queued in self.batches:
            if not is_before(queued, batch):
                break
            position += 1
        self.batches.insert(position, batch)


def is_before(first: Batch, second: Batch) -> bool:
    """Return whether the first of two numbered batches of a partition comes before the other."""
    # Sequence numbers begin again at 0 after 2**31 - 1.
    between = (second.sequence - first.sequence) & 0x7FFFFFFF
    return first.sequence >= 0 and 0 < between < 2**30


class TopicQueues:
    """The partitions of a topic: their queues, and what partitioners remember.

    Attributes:
        queues: by partition; empty while the topic's metadata is unknown
        available: partitions with a leader
        waiting: the batch of the records that wait for the metadata, with their deliveries in `arrivals`
        turn: the number of records that `round_robin` has placed
        sticky: the partition of records without a key, for `sticky_left` more bytes
    """

    __slots__ = (
        "_batch_bytes",
        "arrivals",
        "available",
        "name",
        "queues",
        "sticky",
        "sticky_left",
        "turn",
        "waiting",
    )

    def __init__(self, name: str, batch_bytes: int) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.available: list[int] = []
        self.waiting: Batch | None = None
        self.arrivals: deque[tuple[PendingRecord, int | None]] = deque()
        self.turn = -1
        self._batch_bytes = batch_bytes
        self.sticky = NO_PARTITION
        self.sticky_left = 0

    def sticky_partition(self) -> int:
        """Return the partition of records without a key, another one after each `batch_size` bytes."""
        if self.sticky_left <= 0 or self.sticky >= len(self.queues):
            self._choose_sticky()
        return self.sticky

    def grow(self, count: int, available: list[int]) -> None:
        """Follow the topic's metadata; partitions are never removed."""
        for index in range(len(self.queues), count):
            self.queues.append(PartitionQueue(TopicPartition(self.name, index)))
        self.available = available

    def _choose_sticky(self) -> None:
        """Choose at random; a partition whose queue is long is less likely (KIP-794)."""
        choices: Sequence[int] = self.available or range(len(self.queues))
        lengths = [len(self.queues[index].batches) for index in choices]
        longest = max(lengths)
        weights = [longest + 1 - length for length in lengths]
        self.sticky = _random.choices(choices, weights)[0]
        self.sticky_left = max(1, self._batch_bytes)


class Accumulator(Generic[D]):
    """Queue of a producer, bounded by bytes and by records until they are acknowledged.

    Attributes:
        topics: by name, all that records were queued for
        active: queues with batches that wait or are in flight, in the order in which they became so
        needs_pump: a batch may be sent, or its time be waited for; the owner clears it
        new_topics: topics whose metadata has to be requested; the owner takes them out
        calls: callbacks of records that have a result before any batch was sent; the owner takes them out
    """

    def __init__(
        self,
        settings: ProducerSettings,
        choose: Choose,
        clock: Callable[[], float],
        new_event: Callable[[], Any],
        delivery: type[D],
    ) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self.active: dict[PartitionQueue, None] = {}
        self.queued_bytes = 0
        self.queued_records = 0
        self.needs_pump = False
        self.new_topics: list[TopicQueues] = []
        self.calls: list[tuple[PendingRecord, Callable[[Any], object]]] = []
        self._choose = choose
        self._clock = clock
        self._new_event = new_event
        self._is_threaded = issubclass(delivery, Delivery)
        self._batch_bytes = settings.batch_size
        self._batch_records = settings.batch_num_messages
        self._most_bytes = settings.buffer_memory
        self._most_records = settings.queue_buffering_max_messages
        self._most_record_bytes = min(settings.max_request_size, settings.buffer_memory)
        self._is_sticky = settings.partitioner in STICKY
        self._drops_oldest = settings.when_full == "drop_oldest"
        self._now_ns = time.time_ns

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: EncodedHeaders,
    ) -> D:
        """Queue a record.

        The one method on the path of every record: few calls, each name looked up once.

        Raises:
            QueueFull: there is no room.
            RecordTooLarge: there never will be.
            EncodingFailed: the partitioner raised.
            ValueError: the topic has no such partition.
        """
        size = RECORD_OVERHEAD_BYTES
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += sum(len(name) + len(content or b"") + HEADER_OVERHEAD_BYTES for name, content in headers)
        if size > self._most_record_bytes:
            raise RecordTooLarge(size, self._most_record_bytes)
        if self.queued_bytes + size > self._most_bytes or self.queued_records >= self._most_records:
            self._make_room(size)
        if timestamp_ms is None:
            timestamp_ms = self._now_ns() // 1_000_000
        queues = self.topics.get(topic)
        if queues is None or not queues.queues:
            return self._append_waiting(topic, (key, value, timestamp_ms, headers), partition, size)
        if partition is None:
            if key is None and self._is_sticky and queues.sticky_left > 0:
                # As the partitioner would choose, without calling it.
                partition = queues.sticky
                queues.sticky_left -= size
            else:
                partition = self._choose(queues, key)
                if partition == queues.sticky:
                    queues.sticky_left -= size
        elif not 0 <= partition < len(queues.queues):
            raise ValueError(f"topic {topic!r} has {len(queues.queues)} partitions, there is no {partition}")
        queue = queues.queues[partition]
        batch = queue.open
        if (
            batch is None
            or batch.size + size > self._batch_bytes
            or len(batch.records) >= self._batch_records
        ):
            batch = self._open_batch(queue)
        records = batch.records
        index = batch.dropped + len(records)
        records.append((key, value, timestamp_ms, headers))
        batch.size += size
        self.queued_bytes += size
        self.queued_records += 1
        return self._pending(batch, index, timestamp_ms)

    def follow(self, topic: TopicQueues, count: int, available: list[int]) -> None:
        """Apply a topic's metadata, and move records that waited for it to the batches of partitions."""
        topic.grow(count, available)
        waiting, topic.waiting = topic.waiting, None
        if waiting is None:
            return
        arrivals, topic.arrivals = topic.arrivals, deque()
        callbacks: defaultdict[PendingRecord, list[Any]] = defaultdict(list)
        for each in waiting.callbacks:
            callbacks[each[0]].append(each)
        for (pending, partition), record in zip(arrivals, waiting.records, strict=True):
            self._move(topic, pending, partition, record)
            if pending in callbacks:
                self._add_callbacks(pending.batch, callbacks[pending])
        waiting.moved_to = list(dict.fromkeys(pending.batch for pending, _ in arrivals))
        # Those that wait look at what batch their record is in now.
        waiting.finish()

    def fail_waiting(self, topic: TopicQueues, error: ClientError) -> Batch | None:
        """Fail the records that wait for a topic's metadata; return their batch, None without any."""
        waiting, topic.waiting = topic.waiting, None
        topic.arrivals = deque()
        if waiting is not None:
            self.release(waiting)
            waiting.fail(error)
        return waiting

    def release(self, batch: Batch) -> None:
        """Make the room of a batch free, whose result is about to be set."""
        self.queued_bytes -= batch.size
        self.queued_records -= len(batch.records)

    def add_parts(self, queue: PartitionQueue, batch: Batch) -> None:
        """Replace a batch by two halves, which are sent again."""
        middle = len(batch.records) // 2
        starts = (0, middle)
        halves = (batch.records[:middle], batch.records[middle:])
        for start, records in zip(starts, halves, strict=True):
            part = Batch(batch.partition, batch.created, self._new_event)
            part.records = records
            part.size = batch.size * len(records) // len(batch.records)
            part.is_closed = True
            part.parent = batch
            part.attempts = batch.attempts
            part.is_in_doubt = batch.is_in_doubt
            if batch.sequence >= 0:
                # The broker refused them all, so that they keep their numbers.
                part.sequence = (batch.sequence + start) & 0x7FFFFFFF
            batch.parts.append((start, part))
        # What integer division lost, so that the room is free to the byte in the end.
        batch.parts[0][1].size += batch.size - sum(part.size for _, part in batch.parts)
        for _, part in reversed(batch.parts):
            queue.put_back(part)

    def unfinished(self) -> Iterator[Batch]:
        """Iterate over all batches without a result."""
        for topic in self.topics.values():
            if topic.waiting is not None:
                yield topic.waiting
        for queue in self.active:
            yield from queue.in_flight
            yield from queue.batches

    def _pending(self, batch: Batch, index: int, timestamp_ms: int) -> D:
        # Compiled code makes an object of a class that it knows three times as fast as of one in a variable.
        if self._is_threaded:
            return cast("D", Delivery(batch, index, timestamp_ms))
        return cast("D", AsyncDelivery(batch, index, timestamp_ms))

    def _open_batch(self, queue: PartitionQueue) -> Batch:
        queue.close_open()
        batch = queue.open = Batch(queue.partition, self._clock(), self._new_event)
        # The one before may be full now, and this one has a time to be sent at.
        if queue.batches or not queue.in_flight:
            self.needs_pump = True
        queue.batches.append(batch)
        self.active[queue] = None
        return batch

    def _append_waiting(self, name: str, record: Any, partition: int | None, size: int) -> D:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = TopicQueues(name, self._batch_bytes)
        if topic.waiting is None:
            topic.waiting = Batch(TopicPartition(name, NO_PARTITION), self._clock(), self._new_event)
            self.new_topics.append(topic)
            self.needs_pump = True
        waiting = topic.waiting
        pending = self._pending(waiting, waiting.dropped + len(waiting.records), record[2])
        waiting.records.append(record)
        topic.arrivals.append((pending, partition))
        waiting.size += size
        self.queued_bytes += size
        self.queued_records += 1
        return pending

    def _move(self, topic: TopicQueues, pending: PendingRecord, partition: int | None, record: Any) -> None:
        key, value, timestamp_ms, headers = record
        size = _size_of(key, value, headers)
        self.queued_bytes -= size
        self.queued_records -= 1
        try:
            moved = self.append(topic.name, key, value, partition, timestamp_ms, headers)
            batch, index = moved.batch, moved.index
        except (ClientError, ValueError) as error:
            batch, index = (
                Batch(TopicPartition(topic.name, partition or NO_PARTITION), 0.0, self._new_event),
                0,
            )
            batch.fail(error if isinstance(error, ClientError) else _failure(error))
        pending.batch, pending.index = batch, index

    def _add_callbacks(self, batch: Batch, callbacks: list[Any]) -> None:
        if batch.is_done:
            self.calls += callbacks
        else:
            batch.callbacks += callbacks

    def _make_room(self, size: int) -> None:
        """Drop the oldest records that are not sent, if the producer may.

        Raises:
            QueueFull: it may not, or none is left.
        """
        while self.queued_bytes + size > self._most_bytes or self.queued_records >= self._most_records:
            oldest = self._oldest() if self._drops_oldest else None
            if oldest is None:
                raise QueueFull(self.queued_bytes, self.queued_records)
            self._drop_first(oldest)

    def _oldest(self) -> Batch | None:
        """Return the oldest batch that no broker has got yet."""
        found = [
            batch
            for queue in self.active
            for batch in queue.batches
            if not batch.attempts
            and batch.records
            and batch.encoded is None
            and not (queue.is_encoding and batch is queue.batches[0])
        ]
        found += [topic.waiting for topic in self.topics.values() if topic.waiting and topic.waiting.records]
        return min(found, key=lambda batch: batch.created, default=None)

    def _drop_first(self, batch: Batch) -> None:
        key, value, _, headers = batch.records.pop(0)
        size = _size_of(key, value, headers)
        batch.dropped += 1
        batch.size -= size
        self.queued_bytes -= size
        self.queued_records -= 1
        if batch.partition.partition == NO_PARTITION:
            self.topics[batch.partition.topic].arrivals.popleft()
        if batch.event is not None:
            # Those that wait for other records of the batch wait for a new event.
            event, batch.event = batch.event, None
            event.set()
        if batch.callbacks:
            self.calls += [each for each in batch.callbacks if each[0].done()]
            batch.callbacks = [each for each in batch.callbacks if not each[0].done()]
            self.needs_pump = True


def _size_of(key: bytes | None, value: bytes | None, headers: EncodedHeaders) -> int:
    extra = sum(len(name) + len(content or b"") + HEADER_OVERHEAD_BYTES for name, content in headers)
    return RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + extra


def _failure(error: Exception) -> ClientError:
    failure = ClientError(str(error))
    failure.__cause__ = error
    return failure
