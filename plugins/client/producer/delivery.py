"""What becomes of a record that was sent: batches succeed or fail, and a delivery is one record of one.

The module is compiled where there is a C compiler, and runs as it is elsewhere.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.plugins.client.errors import ClientError, DeliveryPending, RecordDropped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import EncodedBatch
    from tidelog.plugins.client.producer.record_encoder import QueuedRecord

UNKNOWN_OFFSET: Final = -1
_CREATE_TIME: Final = -1
_WAITING: Final = threading.Lock()
"""Two threads that wait for the same batch share its event."""


class RecordMetadata(NamedTuple):
    """Where a record is: `offset` is -1 without a response (acks 0), `timestamp_ms` is that of the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Batch:
    """Records of one partition that are sent together, and later their common result.

    A batch that was too large for the broker is replaced by `parts`, which have its records in order.

    Attributes:
        records: what is queued and not dropped; they are freed with the result
        size: estimated bytes of `records`, as the queue counts them
        dropped: records that were removed in front, to make room for newer ones
        created: when its first record was queued, on the clock of the engine
        is_closed: no record is added any more
        attempts: how often it was sent
        is_in_doubt: an attempt ended without an answer, so that it may be in the log
        moved_to: batches of partitions that have its records now, which waited for those to be known
        sent_records: how many it had when it was sent
        sequence: of its first record, -1 before it has one
    """

    __slots__ = (
        "append_time_ms",
        "attempts",
        "base_offset",
        "callbacks",
        "created",
        "dropped",
        "encoded",
        "error",
        "event",
        "is_closed",
        "is_done",
        "is_in_doubt",
        "last_error",
        "moved_to",
        "new_event",
        "parent",
        "partition",
        "parts",
        "record_errors",
        "records",
        "sent_records",
        "sequence",
        "size",
    )

    def __init__(self, partition: TopicPartition, created: float, new_event: Callable[[], Any]) -> None:
        self.partition = partition
        self.records: list[QueuedRecord] = []
        self.size = 0
        self.dropped = 0
        self.created = created
        self.is_closed = False
        self.is_done = False
        self.attempts = 0
        self.is_in_doubt = False
        self.sequence = -1
        self.encoded: EncodedBatch | None = None
        self.base_offset = UNKNOWN_OFFSET
        self.append_time_ms = _CREATE_TIME
        self.error: ClientError | None = None
        self.last_error: ClientError | None = None
        self.record_errors: Mapping[int, ClientError] = {}
        self.parts: list[tuple[int, Batch]] = []
        self.parent: Batch | None = None
        self.moved_to: list[Batch] = []
        self.sent_records = 0
        self.callbacks: list[tuple[PendingRecord, Callable[[Any], object]]] = []
        self.event: Any = None
        self.new_event = new_event

    def waiter(self) -> Any:
        """Return the event that is set once `is_done`, or None if it is.

        It is also set when records of the batch are dropped or moved, so that a caller looks again.
        """
        with _WAITING:
            event = self.event
            if event is None:
                event = self.event = self.new_event()
        # After the event was stored: `finish` sets `is_done` before it looks for the event.
        return None if self.is_done else event

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        """Record that the batch is in the log."""
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.finish()

    def fail(self, error: ClientError, record_errors: Mapping[int, ClientError] | None = None) -> None:
        """Record that it is not, or may not be; `record_errors` are by the index in the batch."""
        self.error = error
        self.record_errors = record_errors or {}
        self.finish()

    def finish(self) -> None:
        """Free what is not needed for the result, and wake what waits for it."""
        self.is_done = True
        self.records = []
        self.encoded = None
        event = self.event
        if event is not None:
            event.set()

    def outcome(self, index: int, timestamp_ms: int) -> RecordMetadata | ClientError:
        """Return the result of the record with that index, of a batch that is done."""
        if index < self.dropped:
            return RecordDropped(str(self.partition))
        index -= self.dropped
        for start, part in reversed(self.parts):
            if index >= start:
                return part.outcome(index - start, timestamp_ms)
        if self.error is not None:
            return self.record_errors.get(index, self.error)
        offset = self.base_offset if self.base_offset < 0 else self.base_offset + index
        time_ms = timestamp_ms if self.append_time_ms == _CREATE_TIME else self.append_time_ms
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, time_ms)


class PendingRecord:
    """One record of a batch; that batch is another one once the topic's partitions are known."""

    __slots__ = ("batch", "index", "timestamp_ms")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return self.batch.is_done or self.index < self.batch.dropped

    def outcome(self) -> RecordMetadata | ClientError:
        """Return the result or the error.

        Raises:
            DeliveryPending: there is none yet.
        """
        if not self.done():
            raise DeliveryPending
        return self.batch.outcome(self.index, self.timestamp_ms)


class Delivery(PendingRecord):
    """Record that `Producer.send` has queued; any thread may wait for its result."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record to be acknowledged, at most `timeout` seconds.

        Raises:
            ClientError: why it was not.
            TimeoutError: the time was up before.
        """
        outcome = self._wait(timeout)
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Wait as `result` does, and return the error, None for none."""
        outcome = self._wait(timeout)
        return outcome if isinstance(outcome, ClientError) else None

    def _wait(self, timeout: float | None) -> RecordMetadata | ClientError:
        while not self.done():
            batch = self.batch
            event: threading.Event | None = batch.waiter()
            if event is not None and not event.wait(timeout):
                raise TimeoutError(f"a record for {batch.partition} was not acknowledged in time")
        return self.outcome()


class AsyncDelivery(PendingRecord):
    """Record that `AsyncProducer.send` has queued; `await` it for its result."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        while not self.done():
            event = self.batch.waiter()
            if event is not None:
                yield from event.wait().__await__()
        return self.result()

    def result(self) -> RecordMetadata:
        """Return the result of a record that is done.

        Raises:
            ClientError: why it was not appended.
            DeliveryPending: it is not acknowledged yet.
        """
        outcome = self.outcome()
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    def exception(self) -> ClientError | None:
        """Return the error of a record that is done, None for none.

        Raises:
            DeliveryPending: it is not acknowledged yet.
        """
        outcome = self.outcome()
        return outcome if isinstance(outcome, ClientError) else None
