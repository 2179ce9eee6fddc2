"""Producer for async code, on trio and on asyncio, whichever runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.drivers.running import new_driver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import ClientClosed, FencedProducer, IllegalTransactionState, QueueFull
from tidelog.plugins.client.producer.core import ProducerCore, acknowledge
from tidelog.plugins.client.producer.delivery import AsyncDelivery, RecordMetadata
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


class AsyncProducerTransaction:
    """Transaction of a producer as a context manager: it is committed at the end, and aborted on an error."""

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer
        self.send = producer.send

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                await self._producer.commit_transaction()
            except IllegalTransactionState as failure:
                # A record has failed meanwhile: its error is what the caller has to know.
                await self._producer.abort_transaction()
                raise failure.last_error or failure from None
        elif isinstance(error, Exception) and not isinstance(error, FencedProducer):
            # A cancelled task cannot wait: the coordinator aborts the transaction after its timeout.
            await self._producer.abort_transaction()

    async def send_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, int | GroupOffset]
    ) -> None:
        """Commit offsets of a group with the transaction."""
        await self._producer.send_offsets_to_transaction(offsets, group)


class AsyncProducer:
    """Sends records to Kafka or tidelog, in batches and in the background of a trio run or an asyncio loop.

        async with AsyncProducer("127.0.0.1:9092") as producer:
            delivery = await producer.send("orders", b"a cup of tea", key=b"table 7")
            print((await delivery).offset)

    It is created inside of the run or loop, and used by tasks of that one.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[ProducerOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `ProducerSettings`.

        Nothing is connected before the first record.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
            RuntimeError: neither trio nor asyncio runs here.
        """
        settings = ProducerSettings(**options)
        self._driver = new_driver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
        self._core: ProducerCore[AsyncDelivery] = ProducerCore(
            self._engine, settings, self._driver.new_event, AsyncDelivery, self._calls_due
        )
        self._accumulator = self._core.accumulator
        self._append = self._accumulator.append
        self._is_plain = self._core.is_plain
        self._max_block_s = settings.max_block_ms / 1000
        self._is_calling = False
        self._is_started = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        on_delivery: Callable[[AsyncDelivery], object] | None = None,
    ) -> AsyncDelivery:
        """Queue a record; `await` its delivery for the result. See `Producer.send`.

        `on_delivery` is a plain function, which is called in the event loop.
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
        if self._core.is_closed:
            raise ClientClosed("this producer was closed")
        try:
            delivery = self._append(topic, key, value, partition, timestamp_ms, encoded)
        except QueueFull:
            arguments = (topic, key, value, partition, timestamp_ms, encoded)
            delivery = await self._append_when_room(arguments)
        if on_delivery is not None or not self._is_plain:
            self._add_callbacks(delivery, on_delivery)
        if self._accumulator.needs_pump:
            self._pump()
            # Once per batch: else a loop that sends would keep the event loop from receiving.
            if self._accumulator.queued_records > 1:
                await self._driver.checkpoint()
        return delivery

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, **rest: Any
    ) -> RecordMetadata:
        """Send a record and wait until it is acknowledged; arguments and errors are those of `send`.

        Raises:
            ClientError: it was not acknowledged.
        """
        return await (await self.send(topic, value, key, **rest))

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent before has its result, at most `timeout` seconds.

        Raises:
            TimeoutError: the time was up before.
        """
        clock = self._driver.clock
        deadline = None if timeout is None else clock() + timeout
        batches = self._core.begin_flush()
        try:
            for batch in batches:
                # More of them while it iterates: where records move to that wait for metadata.
                while (event := batch.waiter()) is not None:
                    left = None if deadline is None else max(0.0, deadline - clock())
                    if not await self._driver.wait(event, left):
                        raise TimeoutError(f"the producer was not flushed within {timeout} s")
                batches += batch.moved_to
        finally:
            self._core.end_flush()

    async def close(self, timeout: float | None = None) -> None:
        """Flush, at most `timeout` seconds, and close; what has no result then fails with `ClientClosed`."""
        if self._core.is_closed:
            return
        self._core.is_closed = True
        try:
            if self._is_started:
                await self.flush(timeout)
        except TimeoutError:
            pass
        finally:
            self._core.close()
            self._driver.stop()
            self._core.call_all(self._core.take_calls())

    async def init_transactions(self) -> None:
        """Begin to be the producer with the transactional id; an older one with it is fenced.

        `begin_transaction` does it as well when it was not done.

        Raises:
            IllegalTransactionState: the producer has no transactional id.
            ClientError: no coordinator answered.
        """
        await self._transact(self._core.transactions.init())

    async def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on takes effect with it.

        Raises:
            IllegalTransactionState: a transaction is open.
            FencedProducer: a newer producer has the transactional id.
        """
        if self._core.transactions.producer is None:
            await self.init_transactions()
        self._core.transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | GroupOffset], group: str | GroupMetadata
    ) -> None:
        """Commit the next offsets to read of a group with the open transaction.

        Raises:
            IllegalTransactionState: no transaction is open, or it has failed.
            ClientError: they were not accepted; the transaction can only be aborted.
        """
        await self._transact(self._core.transactions.send_offsets(group, offsets))

    async def commit_transaction(self) -> None:
        """Wait for what was sent, and commit it.

        Raises:
            IllegalTransactionState: no transaction is open, or a record of it has failed: abort it.
            FencedProducer: a newer producer has the transactional id; the transaction was aborted.
            ClientError: the coordinator did not answer; it may be called again.
        """
        await self.flush()
        await self._transact(self._core.transactions.commit())

    async def abort_transaction(self) -> None:
        """Abort the open transaction; what is not sent yet fails with `TransactionAborted`.

        Raises:
            IllegalTransactionState: no transaction is open, or its commit is in doubt.
            FencedProducer: a newer producer has the transactional id; the transaction was aborted.
            ClientError: the coordinator did not answer; it may be called again.
        """
        self._core.stop_transaction()
        await self.flush()
        await self._transact(self._core.transactions.abort(self._core.sender.restart_numbers))

    def transaction(self) -> AsyncProducerTransaction:
        """Return a context manager that begins a transaction, and commits it or aborts it on an error."""
        return AsyncProducerTransaction(self)

    async def _transact(self, operation: Steps[None]) -> None:
        self._core.check_open()
        if not self._is_started:
            self._is_started = True
            self._driver.start(self._engine)
        await self._driver.run(operation, self._max_block_s)

    def _pump(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._driver.start(self._engine)
        self._driver.run_now(self._core.pump)

    def _add_callbacks(
        self, delivery: AsyncDelivery, on_delivery: Callable[[AsyncDelivery], object] | None
    ) -> None:
        interceptors = self._core.settings.interceptors
        if interceptors:
            self._core.add_callback(delivery, partial(acknowledge, interceptors, self._core.user))
        if on_delivery is not None:
            self._core.add_callback(delivery, on_delivery)

    async def _append_when_room(self, arguments: tuple[Any, ...]) -> AsyncDelivery:
        deadline = self._driver.clock() + self._max_block_s
        while True:
            self._core.check_open()
            try:
                return self._append(*arguments)
            except QueueFull:
                left = deadline - self._driver.clock()
                if self._core.settings.when_full != "wait" or left <= 0:
                    raise
            room = self._core.room_event()
            self._pump()
            await self._driver.wait(room, left)

    def _calls_due(self) -> None:
        """Have the loop call the callbacks, not what has finished their batches."""
        if not self._is_calling and not self._engine.is_closed:
            self._is_calling = True
            self._engine.soon(self._call_back)

    def _call_back(self) -> None:
        self._is_calling = False
        self._core.call_all(self._core.take_calls())
