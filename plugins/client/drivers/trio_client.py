"""Client for trio: any number of tasks share it and its connections."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from tidelog.plugins.client.drivers.trio_driver import TrioDriver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.operations import all_operations as operations
from tidelog.plugins.client.operations.fetching import DEFAULT_LIMITS
from tidelog.plugins.client.operations.reading import PartitionReader
from tidelog.plugins.client.operations.sending import refresh
from tidelog.plugins.client.settings import ClientSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from types import TracebackType
    from typing import Self

    from tidelog.kernel.records.record import Record
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import FetchedBatch
    from tidelog.plugins.client.operations.fetching import FetchLimits
    from tidelog.plugins.client.steps import Session, Steps

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    operation: Callable[Concatenate[Session, P], Steps[T]],
) -> Callable[Concatenate[TrioClient, P], Awaitable[T]]:
    @wraps(operation)
    async def method(self: TrioClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(operation, *args, **kwargs)

    return method


class TrioClient:
    """Client of a cluster for trio; it connects at its first use and reconnects when needed.

        async with TrioClient("127.0.0.1:9092") as client:
            await client.create_topics([NewTopic("orders", partitions=3)])

    The methods are the operations of `tidelog.plugins.client.operations`, without their session. They raise
    `ClientError`; an operation that does not end within `operation_timeout_s` raises `RequestTimedOut`.
    A request that is not answered in time closes its connection, for all tasks that use it.
    """

    def __init__(self, bootstrap: str | Iterable[str], *, settings: ClientSettings | None = None) -> None:
        """Set the bootstrap servers: `host:port`, separated by commas or as a sequence.

        Raises:
            InvalidAddress: an address has another form.
        """
        chosen = settings or ClientSettings()
        self._timeout_s = chosen.operation_timeout_s
        self._driver = TrioDriver()
        self._engine = Engine(bootstrap, chosen, self._driver)
        self._is_started = False

    metadata = _method(operations.metadata)
    create_topics = _method(operations.create_topics)
    create_partitions = _method(operations.create_partitions)
    delete_topics = _method(operations.delete_topics)
    describe_configs = _method(operations.describe_configs)
    alter_configs = _method(operations.alter_configs)
    list_offsets = _method(operations.list_offsets)
    init_producer = _method(operations.init_producer)
    produce = _method(operations.produce)
    produce_batches = _method(operations.produce_batches)
    init_transactions = _method(operations.init_transactions)
    send_offsets = _method(operations.send_offsets)
    commit_transaction = _method(operations.commit_transaction)
    abort_transaction = _method(operations.abort_transaction)
    commit_offsets = _method(operations.commit_offsets)
    committed_offsets = _method(operations.committed_offsets)
    fetch = _method(operations.fetch)
    fetch_partitions = _method(operations.fetch_partitions)
    close_fetch_sessions = _method(operations.close_fetch_sessions)
    request = _method(operations.send_request)
    request_all = _method(operations.send_requests)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the client cannot be used again."""
        self._engine.close()
        self._driver.stop()

    async def connect(self) -> None:
        """Connect to any bootstrap server now, trying each address once.

        Raises:
            BrokerUnreachable: none of them accepts a connection.
            ClientError: the peer is not a broker with supported versions.
        """
        await self.run(refresh)

    async def run(
        self,
        operation: Callable[Concatenate[Session, P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an operation to its end, the caller's own or one of `tidelog.plugins.client.operations`.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end within `operation_timeout_s` and the pauses that are extra.
        """
        if not (self._is_started or self._engine.is_closed):
            self._is_started = True
            self._driver.start(self._engine)
        return await self._driver.run(operation(self._engine.session, *args, **kwargs), self._timeout_s)

    async def read(
        self,
        partition: TopicPartition,
        start: int,
        stop: int | None = None,
        limits: FetchLimits = DEFAULT_LIMITS,
    ) -> AsyncIterator[Record]:
        """Yield a partition's records from offset `start` up to `stop`; see `PartitionReader` for `stop`.

        Raises:
            ClientError: as `fetch`, and `CorruptRecords`.
        """
        reader = PartitionReader(partition, start, stop, limits)
        while not reader.finished:
            for record in await self.run(reader.poll):
                yield record

    async def read_batches(
        self,
        partition: TopicPartition,
        start: int,
        stop: int | None = None,
        limits: FetchLimits = DEFAULT_LIMITS,
    ) -> AsyncIterator[list[FetchedBatch]]:
        """Yield the committed batches from offset `start` up to `stop`, those of one response at once.

        The batches are whole, so that the first and the last one may have other records as well; see
        `PartitionReader` for `stop`.

        Raises:
            ClientError: as `fetch`, and `CorruptRecords`.
        """
        reader = PartitionReader(partition, start, stop, limits)
        while not reader.finished:
            yield await self.run(reader.poll_batches)
