"""Core of a producer, the same for every driver: from records to their results, without waiting.

    send ─▶ interceptors, encoders ─▶ Accumulator ─▶ BatchSender ─▶ Engine
                callbacks ◀── Batch.finish ◀───────────┘

Callers hold the driver's lock where there is one, but not while code of the user runs: `prepared` is
called before the lock is taken, and `take_calls` returns callbacks to call after it was released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tidelog.plugins.client.errors import (
    ClientClosed,
    ClientError,
    IllegalTransactionState,
    TransactionAborted,
)
from tidelog.plugins.client.producer.accumulator import Accumulator
from tidelog.plugins.client.producer.batch_results import BatchResults
from tidelog.plugins.client.producer.encoders import encoded
from tidelog.plugins.client.producer.interceptors import ProducerRecord, UserCalls
from tidelog.plugins.client.producer.partitioners import chooser
from tidelog.plugins.client.producer.sender import BatchSender
from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.producer.delivery import Batch, PendingRecord
    from tidelog.plugins.client.producer.record_encoder import EncodedHeaders
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.producer.transactions import ProducerTransactions

D = TypeVar("D", bound="PendingRecord")

_MOST_TIMESTAMP: Final = 2**63 - 1
_HEADER_TYPES: Final = (bytes, type(None))


class ProducerCore(Generic[D]):
    """A producer without its driver.

    Attributes:
        accumulator: the queue
        is_closed: no record is accepted any more
        has_calls: there are callbacks for `take_calls`
    """

    def __init__(
        self,
        engine: Engine,
        settings: ProducerSettings,
        new_event: Callable[[], Any],
        delivery: type[D],
        calls_due: Callable[[], None],
    ) -> None:
        """Call `calls_due` when there is something for `take_calls`.

        Raises:
            ValueError: the compression or the partitioner is unknown.
        """
        self.settings = settings
        self.is_closed = False
        self.is_plain = not (
            settings.interceptors
            or settings.key_encoder
            or settings.value_encoder
            or settings.transactional_id
        )
        """Records whose key and value are bytes need no `prepared`."""
        choose = chooser(settings.partitioner)
        self.accumulator: Accumulator[D] = Accumulator(settings, choose, engine.clock, new_event, delivery)
        self.numbers = SequenceNumbers(
            is_enabled=settings.tries_idempotence, is_transactional=settings.transactional_id is not None
        )
        self._transactions: ProducerTransactions | None = None
        if settings.transactional_id is not None:
            # Imported where it is used: it takes a fifth of the time of all imports of a producer.
            from tidelog.plugins.client.producer.transactions import ProducerTransactions

            self._transactions = ProducerTransactions(
                engine, self.numbers, settings.transactional_id, settings.transaction_timeout_ms
            )
        self._results = BatchResults(
            engine, self.accumulator, self.numbers, self._transactions, settings, self._finished
        )
        self.sender = BatchSender(
            engine,
            self.accumulator,
            self.numbers,
            self._transactions,
            self._results,
            settings,
            self._finished,
            self._take_early_calls,
        )
        self.user = UserCalls()
        self._engine = engine
        self._new_event = new_event
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._calls_due = calls_due
        self._is_pump_due = False
        self._room: Any = None
        self._flushes = 0

    def prepared(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> tuple[str, bytes | None, bytes | None, int | None, int | None, EncodedHeaders]:
        """Return the arguments of `append` after interceptors and encoders.

        Raises:
            EncodingFailed: an encoder raised, or returned no bytes.
            TypeError: key, value or a header has another type than it has to.
            ValueError: the timestamp is negative, or beyond 64 bits.
            IllegalTransactionState: the producer is transactional, and no transaction is open.
        """
        settings = self.settings
        if self._transactions is not None:
            self._transactions.check_open()
        if settings.interceptors:
            record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
            for interceptor in settings.interceptors:
                try:
                    record = interceptor.on_send(record)
                except Exception:
                    self.user.log(f"{type(interceptor).__name__}.on_send")
            topic, value, key, partition = record.topic, record.value, record.key, record.partition
            timestamp_ms, headers = record.timestamp_ms, record.headers
        if timestamp_ms is not None and not 0 <= timestamp_ms <= _MOST_TIMESTAMP:
            raise ValueError(f"a timestamp is in milliseconds since the epoch, {timestamp_ms} is none")
        return (
            topic,
            encoded(settings.key_encoder, "key", key),
            encoded(settings.value_encoder, "value", value),
            partition,
            timestamp_ms,
            _encoded_headers(headers) if headers else (),
        )

    @property
    def transactions(self) -> ProducerTransactions:
        """Return the transactions of a transactional producer.

        Raises:
            IllegalTransactionState: it has no transactional id.
        """
        if self._transactions is None:
            raise IllegalTransactionState("", "the producer has no transactional_id")
        return self._transactions

    def stop_transaction(self) -> list[Batch]:
        """Drop what is not sent; return the batches to wait for before the transaction is aborted."""
        self.transactions.begin_abort()
        self._results.fail_queued(TransactionAborted(self.transactions.transactional_id))
        return list(self.accumulator.unfinished())

    def check_open(self) -> None:
        """Raise ClientClosed if the producer is closed."""
        if self.is_closed:
            raise ClientClosed("this producer was closed")

    def request_pump(self) -> None:
        """Have the sender look at the queue once the driver is there."""
        if not self._is_pump_due:
            self._is_pump_due = True
            self._engine.soon(self.pump)

    def add_callback(self, pending: PendingRecord, callback: Callable[[Any], object]) -> None:
        """Call back with a delivery when it has its result, which may be now."""
        if pending.done():
            self._calls.append((callback, (pending,)))
            self._calls_due()
        else:
            pending.batch.callbacks.append((pending, callback))

    def room_event(self) -> Any:
        """Return an event that is set when there is more room in the queue."""
        if self._room is None:
            self._room = self._new_event()
        return self._room

    def take_calls(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """Return callbacks with their arguments, which are called without the lock."""
        calls, self._calls = self._calls, []
        return calls

    def call_all(self, calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
        """Call what `take_calls` has returned; what is raised is logged."""
        for function, args in calls:
            self.user.call(getattr(function, "__qualname__", "a callback"), function, *args)

    def begin_flush(self) -> list[Batch]:
        """Send without lingering from now on; return the batches to wait for, then call `end_flush`."""
        self._flushes += 1
        self.sender.times.is_flushing = True
        self.request_pump()
        return list(self.accumulator.unfinished())

    def end_flush(self) -> None:
        """Let batches linger again."""
        self._flushes -= 1
        self.sender.times.is_flushing = self._flushes > 0

    def close(self) -> None:
        """Fail what is not acknowledged; nothing is sent any more."""
        self.is_closed = True
        self._results.fail_all(ClientClosed("the producer was closed before the record was acknowledged"))
        self._take_early_calls()
        for interceptor in self.settings.interceptors:
            self._calls.append((interceptor.close, ()))
        self._calls_due()

    def pump(self) -> None:
        """Send what can be sent."""
        self._is_pump_due = False
        self.sender.pump()

    def _take_early_calls(self) -> None:
        """Queue the callbacks of records that have a result before any batch of them was sent."""
        calls, self.accumulator.calls = self.accumulator.calls, []
        self._calls += [(callback, (pending,)) for pending, callback in calls]
        self._calls_due()

    def _finished(self, batch: Batch) -> None:
        """Wake those that wait for room, and queue the callbacks of a batch."""
        if self._room is not None:
            room, self._room = self._room, None
            room.set()
        if batch.callbacks:
            self._calls += [(callback, (pending,)) for pending, callback in batch.callbacks]
            batch.callbacks = []
            self._calls_due()


def acknowledge(interceptors: Sequence[Any], user: UserCalls, pending: PendingRecord) -> None:
    """Pass the result of a record to interceptors."""
    outcome = pending.outcome()
    metadata, error = (None, outcome) if isinstance(outcome, ClientError) else (outcome, None)
    for interceptor in interceptors:
        place = f"{type(interceptor).__name__}.on_acknowledgement"
        user.call(place, interceptor.on_acknowledgement, metadata, error)


def _encoded_headers(headers: Sequence[tuple[str, bytes | None]]) -> EncodedHeaders:
    found: list[tuple[bytes, bytes | None]] = []
    for name, content in headers:
        if type(content) not in _HEADER_TYPES:
            raise TypeError(f"the header {name!r} is bytes or None, not {type(content).__name__}")
        found.append((name.encode(), content))
    return tuple(found)
