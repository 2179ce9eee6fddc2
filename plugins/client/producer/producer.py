"""Producer for blocking code: any number of threads send, one of the producer's own does the rest."""

from __future__ import annotations

import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.drivers.thread_driver import ThreadDriver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import ClientClosed, QueueFull
from tidelog.plugins.client.producer.core import ProducerCore, acknowledge
from tidelog.plugins.client.producer.delivery import Delivery, RecordMetadata
from tidelog.plugins.client.producer.settings import ProducerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.plugins.client.producer.settings import ProducerOptions


class Producer:
    """Sends records to Kafka or tidelog, in batches and in the background.

        with Producer("127.0.0.1:9092") as producer:
            delivery = producer.send("orders", b"a cup of tea", key=b"table 7")
            print(delivery.result().offset)

    `AsyncProducer` is the same for async code. All methods may be called by any thread, also in callbacks.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[ProducerOptions]) -> None:
        """Set the brokers, `host:port` separated by commas or as a sequence, and `ProducerSettings`.

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
        self._append = self._core.append
        self._accumulator = self._core.accumulator
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

    def _pump(self) -> None:
        """Have the sender look at the queue; the lock is held."""
        if not self._is_started:
            self._is_started = True
            self._driver.start(self._engine)
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
