"""Driver for blocking code: connections and the time of operations, without the operations themselves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from tidelog.kernel.clock import wall_clock_ms
from tidelog.plugins.client.cluster import NO_TOPIC_ID, ClusterCache
from tidelog.plugins.client.drivers.blocking_connection import BlockingConnection
from tidelog.plugins.client.errors import BrokerUnreachable, ClientClosed, ClientError, RequestTimedOut
from tidelog.plugins.client.settings import ClientSettings, parse_addresses
from tidelog.plugins.client.steps import Pause, Run, Session, extra_time_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.steps import Step, Steps

P = ParamSpec("P")
T = TypeVar("T")


class BlockingDriver:
    """Runs operations of a cluster's client in one thread; it connects at its first use, and when needed.

    `BlockingClient` has the operations as methods. A program that needs few of them imports those alone:

        with BlockingDriver("127.0.0.1:9092") as driver:
            driver.run(list_offsets, partitions)
    """

    def __init__(self, bootstrap: str | Iterable[str], *, settings: ClientSettings | None = None) -> None:
        """Set the bootstrap servers: `host:port`, separated by commas or as a sequence.

        Raises:
            InvalidAddress: an address has another form.
        """
        self._settings = settings or ClientSettings()
        self._session = Session(self._settings, ClusterCache(parse_addresses(bootstrap)), wall_clock_ms)
        self._connections: dict[Address, BlockingConnection] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
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

    def connect(self) -> None:
        """Connect to any bootstrap server now, trying each address once.

        Raises:
            BrokerUnreachable: none of them accepts a connection.
            ClientError: the peer is not a broker with supported versions.
        """
        self._connected(self._session.cluster.addresses(), self._settings.operation_timeout_s)

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic as of its last metadata, by which it is fetched; None if it has none."""
        found = self._session.cluster.topic_id(topic)
        return None if found == NO_TOPIC_ID else found

    def run(
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
        deadline = time.monotonic() + timeout_s
        run = Run(operation(self._session, *args, **kwargs))
        while run.step is not None:
            deadline += extra_time_s(run.step)
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                run.close()
                raise RequestTimedOut(operation.__name__, timeout_s, run.last_error)
            try:
                outcome = self._perform(run.step, remaining_s)
            except ClientError as error:
                run.failed(error)
            else:
                run.succeeded(outcome)
        return run.result

    def _perform(self, step: Step, remaining_s: float) -> list[Any] | None:
        if isinstance(step, Pause):
            time.sleep(min(step.seconds, remaining_s))
            return None
        started = time.monotonic()
        connection = self._connected(step.addresses, remaining_s)
        remaining_s -= time.monotonic() - started
        timeout_s = min(self._settings.request_timeout_s + step.max_delay_s, remaining_s)
        return connection.exchange(step.requests, step.at_most, timeout_s)

    def _connected(self, addresses: Sequence[Address], remaining_s: float) -> BlockingConnection:
        """Return a usable connection to one of the addresses: an open one, else the first that opens."""
        if self._closed:
            raise ClientClosed("this client was closed")
        for address in addresses:
            connection = self._connections.get(address)
            if connection is not None and connection.is_usable:
                return connection
        return self._connect_to_any(addresses, time.monotonic() + remaining_s)

    def _connect_to_any(self, addresses: Sequence[Address], deadline: float) -> BlockingConnection:
        """Connect to the first address that answers; the time that is left is divided among the addresses."""
        attempts: list[tuple[Address, str]] = []
        for tried, address in enumerate(addresses):
            share_s = (deadline - time.monotonic()) / (len(addresses) - tried)
            try:
                connection = self._connect(address, min(self._settings.connect_timeout_s, share_s))
            except BrokerUnreachable as error:
                attempts += error.attempts
            else:
                return connection
        raise BrokerUnreachable(attempts)

    def _connect(self, address: Address, timeout_s: float) -> BlockingConnection:
        stale = self._connections.pop(address, None)
        if stale is not None:
            stale.close()
        connection = self._connections[address] = BlockingConnection(address, self._settings, timeout_s)
        return connection
