"""`KafkaServer` for tests that are async: its methods are awaited, and run in a thread meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import sniffio

from tidelog.testing.server import KafkaServer

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tidelog.testing.clock import ShiftedClock
    from tidelog.testing.faults import InjectedFaults
    from tidelog.testing.request_log import SeenRequest

P = ParamSpec("P")
T = TypeVar("T")


async def _in_thread(call: Callable[[], T]) -> T:
    """Call something that blocks, under trio or asyncio."""
    if sniffio.current_async_library() == "trio":
        import trio

        return await trio.to_thread.run_sync(call)
    import asyncio

    return await asyncio.to_thread(call)


def _awaited(
    method: Callable[Concatenate[KafkaServer, P], T],
) -> Callable[Concatenate[AsyncKafkaServer, P], Awaitable[T]]:
    @wraps(method)
    async def awaited(self: AsyncKafkaServer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _in_thread(partial(method, self.server, *args, **kwargs))

    return awaited


class AsyncKafkaServer:
    """A Kafka that an async test has for itself, under trio and under asyncio.

        async with AsyncKafkaServer(topics=["orders"]) as kafka:
            await kafka.produce("orders", "a cup of tea")

    What sends no request is not awaited: `bootstrap`, `advertised`, `clock`, `faults`, `requests` and
    `config_for`.
    The rest is described at `KafkaServer`.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Mapping[str, int] | Iterable[str] = (),
        directory: Path | str | None = None,
    ) -> None:
        """Prepare a server; the arguments are those of `KafkaServer`."""
        self.server = KafkaServer(settings, topics=topics, directory=directory)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # In this thread: it takes milliseconds, and a cancelled test stops its server, too.
        self.server.stop()

    @property
    def bootstrap(self) -> str:
        """The address for clients, `127.0.0.1:port`."""
        return self.server.bootstrap

    @property
    def advertised(self) -> str:
        """The address that clients get, which is another one with `advertised.listeners`."""
        return self.server.advertised

    @property
    def clock(self) -> ShiftedClock:
        """Time of the broker."""
        return self.server.clock

    @property
    def faults(self) -> InjectedFaults:
        """The faults that a test injects."""
        return self.server.faults

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[SeenRequest]:
        """Return what clients have asked for, the oldest first."""
        return self.server.requests(api, client_id=client_id)

    def clear_requests(self) -> None:
        """Forget what clients have asked for."""
        self.server.clear_requests()

    def config_for(self, client: str, **options: Any) -> dict[str, Any]:
        """Return the configuration by which a client finds the broker."""
        return self.server.config_for(client, **options)

    start = _awaited(KafkaServer.start)
    stop = _awaited(KafkaServer.stop)
    restart = _awaited(KafkaServer.restart)
    kill = _awaited(KafkaServer.kill)
    pause = _awaited(KafkaServer.pause)
    resume = _awaited(KafkaServer.resume)
    create_topic = _awaited(KafkaServer.create_topic)
    delete_topic = _awaited(KafkaServer.delete_topic)
    alter_topic = _awaited(KafkaServer.alter_topic)
    topics = _awaited(KafkaServer.topics)
    produce = _awaited(KafkaServer.produce)
    records = _awaited(KafkaServer.records)
    wait_for_records = _awaited(KafkaServer.wait_for_records)
    groups = _awaited(KafkaServer.groups)
    committed = _awaited(KafkaServer.committed)
    lag = _awaited(KafkaServer.lag)
    fence = _awaited(KafkaServer.fence)
    rebalance = _awaited(KafkaServer.rebalance)
    expire_now = _awaited(KafkaServer.expire_now)
    compact_now = _awaited(KafkaServer.compact_now)
    wait_until_clean = _awaited(KafkaServer.wait_until_clean)
