"""Simple consumer for async code, on trio and on asyncio, whichever runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.settings import SimpleConsumerSettings
from tidelog.plugins.client.drivers.running import new_driver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.operations.fetching import fetch, fetch_partitions
from tidelog.plugins.client.operations.offsets import offsets_before

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.plugins.client.consumer.settings import SimpleConsumerOptions
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers


class AsyncSimpleConsumer:
    """Reads partitions from given offsets, in a trio run or an asyncio loop.

        async with AsyncSimpleConsumer("127.0.0.1:9092") as consumer:
            fetched = await consumer.fetch("orders", 0, 17)
            for record in fetched.records():
                print(record.offset, record.value)

    The caller keeps the offsets: `Fetched.next_offset` is the one to continue with. It is created inside of
    the run or loop, and used by tasks of that one.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[SimpleConsumerOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `SimpleConsumerSettings`.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
            RuntimeError: neither trio nor asyncio runs here.
        """
        settings = SimpleConsumerSettings(**options)
        self._limits = settings.limits()
        self._timeout_s = settings.api_timeout_s
        self._driver = new_driver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
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

    async def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        """Return what a partition has from an offset on; see `SimpleConsumer.fetch`."""
        place = TopicPartition(topic, partition)
        operation = fetch(self._engine.session, place, offset, self._limits)
        return await self._driver.run(operation, self._timeout_s)

    async def multi_fetch(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Fetched | ClientError]:
        """Return the same of several partitions, each from its offset on, or why one cannot be read."""
        operation = fetch_partitions(self._engine.session, offsets, self._limits)
        return await self._driver.run(operation, self._timeout_s)

    async def offsets_before(
        self, topic: str, partition: int, time_ms: int, max_offsets: int = 1
    ) -> list[int]:
        """Return valid offsets before a time; see `SimpleConsumer.offsets_before`."""
        place = TopicPartition(topic, partition)
        operation = offsets_before(self._engine.session, place, time_ms, max_offsets)
        return await self._driver.run(operation, self._timeout_s)

    async def close(self) -> None:
        """Close the connections; calls that wait fail with `ClientClosed`."""
        self._driver.stop()
