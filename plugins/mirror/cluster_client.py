"""What a mirror needs of a client of a cluster, and the client that it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidelog.plugins.client.drivers.trio_driver import TrioDriver
from tidelog.plugins.client.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from tidelog.plugins.client import ClientSettings
    from tidelog.plugins.client.steps import Steps
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers

T = TypeVar("T")


class MirrorClient(Protocol):
    """A client of a cluster, as `TrioClient` is one."""

    async def run(self, operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation to its end."""
        ...


class EngineClient:
    """A client with an engine, which also knows brokers before Apache Kafka 0.10; entered in a trio run."""

    def __init__(self, bootstrap: BootstrapServers, settings: ClientSettings) -> None:
        self._driver = TrioDriver()
        self._engine = Engine(bootstrap, settings, self._driver)
        self._timeout_s = settings.operation_timeout_s

    def __enter__(self) -> Self:
        self._driver.start(self._engine)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._driver.stop()

    async def run(self, operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation to its end.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end in time.
        """
        return await self._driver.run(operation(self._engine.session, *args, **kwargs), self._timeout_s)
