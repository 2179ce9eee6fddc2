"""Producer for blocking code: any number of threads send, one of the producer's own does the rest."""

from __future__ import annotations

import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.drivers.thread_driver import ThreadDriver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import ClientClosed, FencedProducer, IllegalTransactionState, QueueFull
from tidelog.plugins.client.producer.core import ProducerCore, acknowledge
from tidelog.plugins.client.producer.delivery import Delivery, RecordMetadata
from tidelog.plugins.client.producer.settings import ProducerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata, GroupOffset
    from tidelog.plugins.client.producer.settings import ProducerOptions
    from tidelog.plugins.client.steps import Steps
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers


class ProducerTransaction:
    """Transaction of a producer as a context manager: it is committed at the end, and aborted on an error."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.send = producer.send

    def __enter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._producer.commit_transaction()
            except IllegalTransactionState as failure:
                # A record has failed meanwhile: its error is what the caller has to know.
                self._producer.abort_transaction()
                raise failure.last_error or failure from None
        elif not isinstance(error, FencedProducer):
            self._producer.abort_transaction()

    def send_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, int | GroupOffset]
    ) -> None:
        """Commit offsets of a group with the transaction; see `Producer.send_offsets_to_transaction`."""
        self._producer.send_offsets_to_transaction(offsets, group)


class Producer:
    """Sends records to Kafka or tidelog, in batches and in the background.

        with Producer("127.0.0.1:9092") as producer:
            delivery = producer.send("orders", b"a cup of tea", key=b"table 7")
            print(delivery.result().offset)

    `AsyncProducer` is the same for async code. All methods may be called by any thread, also in callbacks.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[ProducerOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `ProducerSettings`.

        Nothing is connected before the first record.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
        """
        settings = ProducerSettings(**options)
        self._driver = ThreadDriver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
        self._core: ProducerCore[Delivery] = ProducerCore(
            self._engine, settings, threading.Event, Delivery, self._calls_due
        )
        self._lock = self._driver.lock
        self._accumulator = self._core.accumulator
        self._append = self._accumulator.append
        self._is_plain = self._core.is_plain
        self._max_block_s = settings.max_block_ms / 1000
        self._callbacks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._callback_thread: threading.Thread | None = None
        self._is_started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Queue a record; its `Delivery` has the result.

        Args:
            topic: name of the topic, which brokers may create
            value: bytes, or what `value_encoder` takes; None is a tombstone
            key: bytes, or what `key_encoder` takes; None for no key
            partition: None leaves it to the partitioner
            timestamp_ms: milliseconds since the epoch, None means now
            headers: names and values
            on_delivery: called with the delivery once it has its result, in a thread of the producer

        Raises:
            QueueFull: there is no room, and was none for `max_block_ms` if the producer waits.
            RecordTooLarge: the record exceeds `max_request_size`.
            EncodingFailed: an encoder or the partitioner raised.
            TypeError: key or value is not bytes, and there is no encoder.
            ValueError: the topic has no such partition, or the timestamp is none.
            ClientClosed: the producer is closed.
        """
        encoded: Any = ()
        if (
            not self._is_plain
            or headers
            or timestamp_ms is not None
            or type(value) is not bytes
            or (key is not None and type(key) is not bytes)
        ):
            prepared = self._core.prepared(topic, value, key, partition, timestamp_ms, headers)
            topic, key, value, partition, timestamp_ms, encoded = prepared
        with self._lock:
            if self._core.is_closed:
                raise ClientClosed("this producer was closed")
            try:
                delivery = self._append(topic, key, value, partition, timestamp_ms, encoded)
            except QueueFull:
                # What is said of `when_full` is looked up there.
                pass
            else:
                if on_delivery is not None or not self._is_plain:
                    self._add_callbacks(delivery, on_delivery)
                if self._accumulator.needs_pump:
                    self._pump()
                return delivery
        return self._send_when_room((topic, key, value, partition, timestamp_ms, encoded), on_delivery)

    def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **rest: Any) -> RecordMetadata:
        """Send a record and wait until it is acknowledged; arguments and errors are those of `send`.

        Raises:
            ClientError: it was not acknowledged.
        """
        return self.send(topic, value, key, **rest).result()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent before has its result, at most `timeout` seconds.

        Raises:
            TimeoutError: the time was up before.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            batches = self._core.begin_flush()
        try:
            for batch in batches:
                # More of them while it iterates: where records move to that wait for metadata.
                while (event := batch.waiter()) is not None:
                    left = None if deadline is None else max(0.0, deadline - time.monotonic())
                    if not event.wait(left):
                        raise TimeoutError(f"the producer was not flushed within {timeout} s")
                batches += batch.moved_to
        finally:
            with self._lock:
                self._core.end_flush()

    def close(self, timeout: float | None = None) -> None:
        """Flush, at most `timeout` seconds, and close; what has no result then fails with `ClientClosed`."""
        if self._core.is_closed:
            return
        self._core.is_closed = True
        try:
            if self._is_started:
                self.flush(timeout)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._core.close()
            self._driver.stop()
            if self._callback_thread is not None:
                self._callbacks.put(None)
                if self._callback_thread is not threading.current_thread():
                    self._callback_thread.join(timeout)

    def init_transactions(self) -> None:
        """Begin to be the producer with the transactional id; an older one with it is fenced.

        `begin_transaction` does it as well when it was not done.

        Raises:
            IllegalTransactionState: the producer has no transactional id.
            ClientError: no coordinator answered.
        """
        self._transact(self._core.transactions.init())

    def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on takes effect with it.

        Raises:
            IllegalTransactionState: a transaction is open.
            FencedProducer: a newer producer has the transactional id.
        """
        if self._core.transactions.producer is None:
            self.init_transactions()
        with self._lock:
            self._core.transactions.begin()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | GroupOffset], group: str | GroupMetadata
    ) -> None:
        """Commit the next offsets to read of a group with the open transaction.

        Raises:
            IllegalTransactionState: no transaction is open, or it has failed.
            ClientError: they were not accepted; the transaction can only be aborted.
        """
        self._transact(self._core.transactions.send_offsets(group, offsets))

    def commit_transaction(self) -> None:
        """Wait for what was sent, and commit it.

        Raises:
            IllegalTransactionState: no transaction is open, or a record of it has failed: abort it.
            FencedProducer: a newer producer has the transactional id; the transaction was aborted.
            ClientError: the coordinator did not answer; it may be called again.
        """
        self.flush()
        self._transact(self._core.transactions.commit())

    def abort_transaction(self) -> None:
        """Abort the open transaction; what is not sent yet fails with `TransactionAborted`.

        Raises:
            IllegalTransactionState: no transaction is open, or its commit is in doubt.
            FencedProducer: a newer producer has the transactional id; the transaction was aborted.
            ClientError: the coordinator did not answer; it may be called again.
        """
        with self._lock:
            self._core.stop_transaction()
        self.flush()
        self._transact(self._core.transactions.abort(self._core.sender.restart_numbers))

    def transaction(self) -> ProducerTransaction:
        """Return a context manager that begins a transaction, and commits it or aborts it on an error."""
        return ProducerTransaction(self)

    def _transact(self, operation: Steps[None]) -> None:
        with self._lock:
            self._core.check_open()
            if not self._is_started:
                self._is_started = True
                self._driver.start(self._engine)
        self._driver.run(operation, self._max_block_s)

    def _pump(self) -> None:
        """Have the sender look at the queue; the lock is held."""
        if not self._is_started:
            self._is_started = True
            self._driver.start(self._engine)
        if self._accumulator.queued_records == 1:
            # One record alone is on its way sooner without another thread; with many it is the other thread
            # that encodes and sends while this one queues more.
            self._driver.run_now(self._core.pump)
        else:
            self._core.request_pump()

    def _add_callbacks(self, delivery: Delivery, on_delivery: Callable[[Delivery], object] | None) -> None:
        interceptors = self._core.settings.interceptors
        if interceptors:
            self._core.add_callback(delivery, partial(acknowledge, interceptors, self._core.user))
        if on_delivery is not None:
            self._core.add_callback(delivery, on_delivery)

    def _send_when_room(
        self, arguments: tuple[Any, ...], on_delivery: Callable[[Delivery], object] | None
    ) -> Delivery:
        deadline = time.monotonic() + self._max_block_s
        while True:
            with self._lock:
                self._core.check_open()
                try:
                    delivery = self._append(*arguments)
                except QueueFull:
                    if self._core.settings.when_full != "wait" or time.monotonic() >= deadline:
                        raise
                    room = self._core.room_event()
                    self._pump()
                else:
                    self._add_callbacks(delivery, on_delivery)
                    if self._accumulator.needs_pump:
                        self._pump()
                    return delivery
            room.wait(max(0.0, deadline - time.monotonic()))

    def _calls_due(self) -> None:
        """Hand callbacks to their thread, so that one which blocks holds up no batch; the lock is held."""
        if self._callback_thread is None:
            self._callback_thread = threading.Thread(
                target=self._call_back, name="tidelog-callbacks", daemon=True
            )
            self._callback_thread.start()
        calls = self._core.take_calls()
        if calls:
            self._callbacks.put(calls)

    def _call_back(self) -> None:
        while (calls := self._callbacks.get()) is not None:
            self._core.call_all(calls)
