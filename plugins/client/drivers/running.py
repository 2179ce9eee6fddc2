"""The driver for the async library that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import sniffio

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.engine import Engine, EngineIo
    from tidelog.plugins.client.steps import Steps

T = TypeVar("T")


if TYPE_CHECKING:

    class AsyncDriver(EngineIo, Protocol):
        """Driver of an engine for async code."""

        def start(self, engine: Engine) -> None:
            """Run the engine beside the caller."""
            ...

        def stop(self) -> None:
            """Close the engine."""
            ...

        def run_now(self, call: Callable[[], None]) -> None:
            """Let the engine process an event."""
            ...

        def new_event(self) -> Any:
            """Return an event that tasks can wait for."""
            ...

        async def checkpoint(self) -> None:
            """Let other tasks run."""
            ...

        async def wait(self, event: Any, timeout_s: float | None) -> bool:
            """Wait for an event; return whether it came in time."""
            ...

        async def run(self, operation: Steps[T], timeout_s: float | None) -> T:
            """Run an operation to its end."""
            ...


def new_driver() -> AsyncDriver:
    """Return a driver for the trio run or asyncio loop of the caller.

    Raises:
        RuntimeError: neither of them runs here.
    """
    try:
        library = sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        library = ""
    # Each is imported where it runs already.
    if library == "trio":
        from tidelog.plugins.client.drivers.trio_driver import TrioDriver

        return TrioDriver()
    if library == "asyncio":
        from tidelog.plugins.client.drivers.asyncio_driver import AsyncioDriver

        return AsyncioDriver()
    raise RuntimeError("an async client is created in a trio run or an asyncio event loop; none runs here")
