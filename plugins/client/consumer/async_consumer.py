"""Consumer for async code, on trio and on asyncio, whichever runs."""

from __future__ import annotations

import inspect
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer import offset_queries
from tidelog.plugins.client.consumer.core import ConsumerCore
from tidelog.plugins.client.consumer.settings import ConsumerSettings
from tidelog.plugins.client.drivers.running import new_driver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import ClientClosed, ClientError, RequestTimedOut
from tidelog.plugins.client.operations.offsets import FoundOffset
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.consumer.membership import AssignmentChange
    from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
    from tidelog.plugins.client.consumer.record_batch import RecordBatch
    from tidelog.plugins.client.consumer.settings import ConsumerOptions
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata, GroupOffset
    from tidelog.plugins.client.steps import Steps
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers

T = TypeVar("T")


class AsyncConsumer:
    """Reads records of Kafka or tidelog, fetched ahead in the background of a trio run or an asyncio loop.

        async with AsyncConsumer("127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            async for record in consumer:
                print(record.offset, record.value)

    It is created inside of the run or loop, and used by one task of it at a time.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[ConsumerOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `ConsumerSettings`.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
            RuntimeError: neither trio nor asyncio runs here.
        """
        settings = self._settings = ConsumerSettings(**options)
        self._driver = new_driver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
        self._core = ConsumerCore(self._engine, settings, self._driver.new_event, nullcontext())
        self._driver.start(self._engine)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records without an end; the position follows each record that is returned."""
        return _Records(self._core, self._begin, self._wait)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that are assigned already keep their positions."""
        self._core.assign(partitions)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share the partitions of topics with the other members of the group; replaces a subscription.

        Args:
            topics: names of topics
            pattern: regular expression for whole names of topics; new ones that match join later
            listener: called when partitions come or go

        Raises:
            NotAssigned: the consumer has no `group_id`.
            ValueError: partitions are assigned by hand, or the pattern is no regular expression.
        """
        self._core.group.subscribe(topics, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leave the group, and give up all partitions."""
        change = self._core.group.last_change()
        if change is not None:
            await self._apply(change)
        await self._run(self._core.unsubscribing())

    def subscription(self) -> frozenset[str]:
        """Return the topics of the subscription, those that match its pattern included."""
        return self._core.group.topics()

    def group_metadata(self) -> GroupMetadata:
        """Return the group and its member, by which a transactional producer sends offsets.

        Raises:
            NotAssigned: the consumer has no `group_id`.
        """
        return self._core.group.metadata()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return self._core.assignment()

    async def poll(self, timeout: float | None = None) -> list[ConsumerRecord]:
        """Return the next records, at most `max_poll_records`; none after `timeout` seconds.

        With None it waits for the first one. The positions are after what is returned.

        Raises:
            ErrorResponse: a partition cannot be read.
            NoOffset: a partition has no offset to begin with, and auto_offset_reset is none.
            CorruptRecords: a batch cannot be read; the position stays before it.
            DecodingFailed: a decoder has raised; the position is that of the record.
            ClientClosed: the consumer is closed.
        """
        return await self._poll(timeout, self._core.records.take_records)

    async def poll_batches(self, timeout: float | None = None) -> list[RecordBatch]:
        """Return the next record batches, as views of what was received; as `poll`."""
        return await self._poll(timeout, self._core.records.take_batches)

    async def poll_arrow(self, timeout: float | None = None) -> Any:
        """Return the next records as a `pyarrow.Table` (see `arrow_tables`), without rows after `timeout`.

        It needs the extra `arrow`. Decoders are not called. As `poll` otherwise.
        """
        from tidelog.plugins.client.consumer.arrow_tables import table_of

        return table_of(await self._poll(timeout, self._core.records.take_batches))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue a partition at an offset.

        Raises:
            NotAssigned: it is not assigned.
            ValueError: the offset is negative.
        """
        self._core.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue partitions, by default all, at the start of their logs; raises `NotAssigned`."""
        self._core.seek_to(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue partitions, by default all, at the end of their logs; raises `NotAssigned`."""
        self._core.seek_to(partitions, "latest")

    async def seek_to_time(self, time_ms: int, *partitions: TopicPartition) -> None:
        """Continue partitions, by default all, at the first record that is not older, or at the end.

        Raises:
            NotAssigned: one is not assigned.
            ClientError: the offsets cannot be looked up.
        """
        wanted = partitions or self._core.assignment()
        found = await self.offsets_for_times(dict.fromkeys(wanted, time_ms))
        for partition, each in found.items():
            if each is None:
                self._core.seek_to([partition], "latest")
            else:
                self._core.seek(partition, each.offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of partitions until they are resumed; raises `NotAssigned`."""
        self._core.pause(partitions, is_paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again; raises `NotAssigned`."""
        self._core.pause(partitions, is_paused=False)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return self._core.paused()

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record, and wait until it is known.

        Raises:
            NotAssigned: the partition is not assigned.
            RequestTimedOut: it is not known within `default_api_timeout_ms`.
        """
        return await self._known(lambda: self._core.position(partition), f"the position of {partition}")

    async def lag(self, partition: TopicPartition) -> int:
        """Return how many offsets are between the position and the end, as of the last response.

        The end is that of `isolation_level`. Raises as `position`.
        """
        return await self._known(lambda: self._core.lag(partition), f"the end of {partition}")

    async def commit(self, offsets: Mapping[TopicPartition, int | GroupOffset] | None = None) -> None:
        """Commit offsets of next records, by default all positions, and wait for the coordinator.

        Raises:
            NotAssigned: the consumer has no `group_id`.
            ClientError: an offset was not committed.
        """
        chosen = self._core.commits.offsets_to_commit(offsets)
        await self._run(self._core.commits.commit(chosen))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | GroupOffset] | None = None,
        on_commit: Callable[[Mapping[TopicPartition, GroupOffset], ClientError | None], object] | None = None,
    ) -> None:
        """Commit in the background, without a retry; `on_commit` gets the offsets, and the error or None.

        It is called in the event loop, and must not block. Raises `NotAssigned` as `commit`.
        """
        chosen = self._core.commits.offsets_to_commit(offsets)
        self._core.commits.commit_soon(chosen, on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, GroupOffset | None]:
        """Return what the group has committed, None for nothing.

        Raises:
            NotAssigned: the consumer has no `group_id`.
            ClientError: the offsets cannot be read.
        """
        return await self._run(self._core.commits.committed(partitions))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return await self._offsets_at(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that `isolation_level` lets it read."""
        return await self._offsets_at(partitions, LATEST_TIMESTAMP)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return the first record of each partition that is not older than its time; None if there is none.

        Times are in milliseconds since the epoch.
        """
        return await self._run(offset_queries.offsets_for_times(self._engine.session, times))

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the indexes of a topic's partitions.

        Raises:
            ErrorResponse: there is no such topic.
        """
        return await self._run(offset_queries.partitions_of(self._engine.session, topic))

    async def close(self) -> None:
        """Commit what was returned, if that is automatic, and close the connections."""
        if self._core.is_closed:
            return
        try:
            change = self._core.group.last_change()
            if change is not None:
                await self._apply(change)
            await self._run(self._core.closing())
        except ClientError:
            # It is closed all the same: brokers forget what they keep of it in time.
            pass
        finally:
            self._driver.stop()

    async def _poll(self, timeout: float | None, take: Callable[[], list[T]]) -> list[T]:
        core, clock = self._core, self._driver.clock
        deadline = None if timeout is None else clock() + timeout
        await self._begin()
        while True:
            found = take()
            if found:
                return found
            event = core.waiter()
            if core.is_closed:
                raise ClientClosed("this consumer was closed")
            if event is None:
                await self._begin()
                continue
            left = None if deadline is None else deadline - clock()
            if left is not None and left <= 0:
                return []
            await self._wait(event, left)

    async def _begin(self) -> None:
        """Do what is due at each poll: commit, and apply what has changed about the assignment."""
        self._core.begin_poll()
        while (change := self._core.group.next_change()) is not None:
            await self._apply(change)

    async def _apply(self, change: AssignmentChange) -> None:
        commit = self._core.commits.commit_before(change)
        try:
            if commit is not None:
                # Without it those that get the partitions read again what was not committed.
                with suppress(ClientError):
                    await self._run(commit)
            self._core.group.begin_change(change)
            called = self._core.group.call_listener(change)
            if inspect.isawaitable(called):
                await called
        finally:
            self._core.group.finish_change(change)

    async def _known(self, find: Callable[[], int | None], what: str) -> int:
        timeout_s = self._settings.api_timeout_s
        deadline = self._driver.clock() + timeout_s
        while True:
            # Before the value is looked at: what changes it later sets this event.
            event = self._core.change_event()
            found = find()
            if found is not None:
                return found
            left = deadline - self._driver.clock()
            if left <= 0:
                raise RequestTimedOut(what, timeout_s)
            await self._wait(event, left)

    async def _offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        session = self._engine.session
        return await self._run(offset_queries.offsets_at(session, self._settings, partitions, timestamp))

    async def _run(self, operation: Steps[T]) -> T:
        return await self._driver.run(operation, self._settings.api_timeout_s)

    async def _wait(self, event: Any, timeout_s: float | None) -> None:
        await self._driver.wait(event, timeout_s)


class _Records:
    """Iterator over records; no generator, which trio wants to be closed when an iteration is left."""

    def __init__(
        self,
        core: ConsumerCore,
        begin: Callable[[], Awaitable[None]],
        wait: Callable[[Any, float | None], Awaitable[None]],
    ) -> None:
        self._core = core
        self._taken = core.records
        self._begin = begin
        self._wait = wait
        self._chunk: Iterator[ConsumerRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        records = self._taken
        while True:
            for record in self._chunk:
                records.current = record
                return record
            await self._begin()
            self._chunk = iter(records.take_chunk())
            event = self._core.waiter()
            if event is not None:
                await self._wait(event, None)
