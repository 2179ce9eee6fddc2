"""Consumer connector for async code, on trio and on asyncio, whichever runs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.connector.coordination import new_coordination
from tidelog.plugins.client.connector.core import ConnectorCore
from tidelog.plugins.client.connector.settings import ConnectorSettings
from tidelog.plugins.client.connector.streams import by_topic
from tidelog.plugins.client.drivers.running import new_driver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.settings import ConnectorOptions
    from tidelog.plugins.client.connector.streams import StreamState
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.drivers.running import AsyncDriver
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers


class AsyncMessageStream:
    """Records of the partitions that a connector has given to this stream, for one task at a time.

    An iteration waits for records. It ends when the connector is shut down, and after `consumer_timeout_ms`
    without a record; another one continues then. A record counts as consumed once it was returned.
    """

    def __init__(self, core: ConnectorCore, state: StreamState, driver: AsyncDriver) -> None:
        self._core = core
        self._state = state
        self._records = state.records
        self._driver = driver
        self._timeout_s = core.settings.consumer_timeout_s

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            return self._records.popleft()
        except IndexError:
            record = await self.get(self._timeout_s)
        if record is None:
            raise StopAsyncIteration
        return record

    async def get(self, timeout: float | None = None) -> ConsumerRecord | None:
        """Return the next record, None after `timeout` seconds or when the connector is shut down.

        Raises:
            ClientError: as `AsyncConsumer.poll`; the next call continues where that is possible.
        """
        clock = self._driver.clock
        deadline = None if timeout is None else clock() + timeout
        # A task that gets one record after the other lets others run once for what was decoded together.
        if not self._records:
            await self._driver.checkpoint()
        while True:
            if self._records:
                return self._records.popleft()
            event = self._core.refill(self._state)
            if event is not None:
                left = None if deadline is None else deadline - clock()
                if left is not None and left <= 0:
                    self._state.event = None
                    return None
                await self._wait(event, left)
            elif self._core.is_closed:
                return None

    async def _wait(self, event: Any, timeout_s: float | None) -> None:
        try:
            await self._driver.wait(event, timeout_s)
        finally:
            # It may be cancelled: then nothing waits any more.
            self._state.event = None


class AsyncConsumerConnector:
    """Divides topics among the members of a group, and its own share of them among streams.

        async with AsyncConsumerConnector("127.0.0.1:9092", group_id="kitchen") as connector:
            streams = connector.create_message_streams({"orders": 2})
            async for record in streams["orders"][0]:
                print(record.value)

    Each partition goes to exactly one stream of one member, and each stream may have a task of its own. It is
    created inside of the trio run or asyncio loop, and used by tasks of that one.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[ConnectorOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `ConnectorSettings`.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
            ModuleNotFoundError: ZooKeeper is named, and kazoo is not installed.
            RuntimeError: neither trio nor asyncio runs here.
        """
        settings = ConnectorSettings(**options)
        self._driver = new_driver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
        self._core = ConnectorCore(self._engine, settings, self._driver.new_event, nullcontext())
        self._core.coordination = new_coordination(self._core, bootstrap_servers)
        self._driver.start(self._engine)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.shutdown()

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[AsyncMessageStream]]:
        """Join the group; return so many streams for each topic.

        Raises:
            ValueError: the connector has streams already, or is to have none of a topic.
        """
        states = self._core.create_streams(topics)
        return by_topic(states, lambda state: AsyncMessageStream(self._core, state, self._driver))

    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, streams: int = 1
    ) -> list[AsyncMessageStream]:
        """Join the group; return streams for all topics that a filter lets through, also for later ones.

        Raises:
            ValueError: the connector has streams already, or is to have none.
        """
        states = self._core.create_streams({}, topic_filter, streams)
        return [AsyncMessageStream(self._core, state, self._driver) for state in states]

    def assignment(self) -> dict[TopicPartition, int]:
        """Return the partitions of this connector, and the number of the stream that each of them feeds."""
        return self._core.assignment()

    async def commit_offsets(self) -> None:
        """Commit what the streams have returned, and wait until that is stored.

        Raises:
            ClientError: an offset was not committed.
        """
        error = await self._call(self._core.commit, "commit_offsets")
        if error is not None:
            raise error

    async def shutdown(self) -> None:
        """Commit what was returned, if that is automatic, leave the group, and end all iterations."""
        if self._core.is_closed:
            return
        try:
            await self._call(lambda done: self._core.shut_down(lambda: done(None)), "shutdown")
        except RequestTimedOut:
            # The group drops a member that is silent.
            pass
        finally:
            self._driver.stop()

    async def _call(
        self, begin: Callable[[Callable[[ClientError | None], None]], None], name: str
    ) -> ClientError | None:
        outcomes: list[ClientError | None] = []
        ended = self._driver.new_event()

        def done(outcome: ClientError | None) -> None:
            outcomes.append(outcome)
            ended.set()

        begin(done)
        timeout_s = 2 * self._core.settings.api_timeout_s
        if not await self._driver.wait(ended, timeout_s):
            raise RequestTimedOut(name, timeout_s)
        return outcomes[0]
