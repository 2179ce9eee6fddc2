"""Client for trio: any number of tasks share it and its connections."""

from __future__ import annotations

from collections import defaultdict
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import trio

from tidelog.kernel.clock import wall_clock_ms
from tidelog.plugins.client.cluster import ClusterCache
from tidelog.plugins.client.drivers.trio_connection import TrioConnection
from tidelog.plugins.client.errors import BrokerUnreachable, ClientClosed, ClientError, RequestTimedOut
from tidelog.plugins.client.operations import all_operations as operations
from tidelog.plugins.client.operations.fetching import DEFAULT_LIMITS
from tidelog.plugins.client.operations.reading import PartitionReader
from tidelog.plugins.client.settings import ClientSettings, parse_addresses
from tidelog.plugins.client.steps import Pause, Run, Session, extra_time_s

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from tidelog.kernel.records.record import Record
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import FetchedBatch
    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.operations.fetching import FetchLimits
    from tidelog.plugins.client.steps import Step, Steps

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
        self._settings = settings or ClientSettings()
        self._session = Session(self._settings, ClusterCache(parse_addresses(bootstrap)), wall_clock_ms)
        self._connections: dict[Address, TrioConnection] = {}
        self._connecting: defaultdict[Address, trio.Lock] = defaultdict(trio.Lock)
        self._closed = False

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
        self._closed = True
        while self._connections:
            self._connections.popitem()[1].close()

    async def connect(self) -> None:
        """Connect to any bootstrap server now, trying each address once.

        Raises:
            BrokerUnreachable: none of them accepts a connection.
            ClientError: the peer is not a broker with supported versions.
        """
        deadline = trio.current_time() + self._settings.operation_timeout_s
        await self._connected(self._session.cluster.addresses(), deadline)

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
        timeout_s = self._settings.operation_timeout_s
        deadline = trio.current_time() + timeout_s
        run = Run(operation(self._session, *args, **kwargs))
        while run.step is not None:
            deadline += extra_time_s(run.step)
            if trio.current_time() >= deadline:
                run.close()
                raise RequestTimedOut(operation.__name__, timeout_s, run.last_error)
            try:
                outcome = await self._perform(run.step, deadline)
            except ClientError as error:
                run.failed(error)
            else:
                run.succeeded(outcome)
        return run.result

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

    async def _perform(self, step: Step, deadline: float) -> list[Any] | None:
        if isinstance(step, Pause):
            await trio.sleep_until(min(trio.current_time() + step.seconds, deadline))
            return None
        connection = await self._connected(step.addresses, deadline)
        max_delay_s = self._settings.request_timeout_s + step.max_delay_s
        timeout_s = max(0.0, min(max_delay_s, deadline - trio.current_time()))
        with trio.move_on_after(timeout_s):
            return await connection.exchange(step.requests, step.at_most)
        error = RequestTimedOut(f"{connection.waiting_for} by {connection.peer}", timeout_s)
        connection.close()
        raise error

    async def _connected(self, addresses: Sequence[Address], deadline: float) -> TrioConnection:
        """Return a usable connection to one of the addresses: an open one, else the first that opens."""
        for address in addresses:
            connection = self._open_connection(address)
            if connection is not None:
                return connection
        attempts: list[tuple[Address, str]] = []
        for tried, address in enumerate(addresses):
            # Each address gets a share of the time, so that an unresponsive one leaves some to the next.
            share_s = (deadline - trio.current_time()) / (len(addresses) - tried)
            try:
                return await self._connect(address, max(0.0, min(self._settings.connect_timeout_s, share_s)))
            except BrokerUnreachable as error:
                attempts += error.attempts
        raise BrokerUnreachable(attempts)

    def _open_connection(self, address: Address) -> TrioConnection | None:
        if self._closed:
            raise ClientClosed("this client was closed")
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_usable else None

    async def _connect(self, address: Address, timeout_s: float) -> TrioConnection:
        """Connect; tasks that want the same broker at the same time share one connection."""
        with trio.move_on_after(timeout_s):
            async with self._connecting[address]:
                # Another task may have connected while this one waited for the lock.
                connection = self._open_connection(address)
                if connection is None:
                    connection = await TrioConnection.open(address, self._settings)
                    self._replace(address, connection)
                return connection
        raise BrokerUnreachable([(address, f"no answer within {timeout_s:.3g} s")])

    def _replace(self, address: Address, connection: TrioConnection) -> None:
        # The client may have been closed while it connected.
        if self._closed:
            connection.close()
            raise ClientClosed("this client was closed")
        stale = self._connections.pop(address, None)
        if stale is not None:
            stale.close()
        self._connections[address] = connection
