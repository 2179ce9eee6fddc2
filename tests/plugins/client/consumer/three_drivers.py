"""The consumers over each of their drivers, so that a test is written once, as async code."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import trio

from tests.deadlines import DEADLINE_S
from tidelog.client import AsyncConsumer, AsyncSimpleConsumer, Consumer, SimpleConsumer


class _Blocking:
    """A blocking consumer with the methods of an async one, none of which waits for an event loop."""

    def __init__(self, consumer: Any, like: type[Any]) -> None:
        self.consumer = consumer
        self.like = like

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.consumer.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.consumer, name)
        if not inspect.iscoroutinefunction(getattr(self.like, name)):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call

    async def __aiter__(self) -> Any:
        for record in self.consumer:
            yield record


class Consumers:
    """The classes of consumers of a driver."""

    def __init__(self, *, is_async: bool) -> None:
        self._is_async = is_async

    def simple(self, bootstrap: str, **options: Any) -> Any:
        if self._is_async:
            return AsyncSimpleConsumer(bootstrap, **options)
        return _Blocking(SimpleConsumer(bootstrap, **options), AsyncSimpleConsumer)

    def consumer(self, bootstrap: str, **options: Any) -> Any:
        # A seek takes effect when the fetch has ended that waits for data.
        options.setdefault("fetch_max_wait_ms", 20)
        if self._is_async:
            return AsyncConsumer(bootstrap, **options)
        return _Blocking(Consumer(bootstrap, **options), AsyncConsumer)


Body = Callable[[Consumers], Coroutine[Any, Any, None]]


def _in_threads(body: Body) -> None:
    coroutine = body(Consumers(is_async=False))
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("something was awaited that blocking code does not do")


async def _bounded(body: Body) -> None:
    async with asyncio.timeout(4 * DEADLINE_S):
        await body(Consumers(is_async=True))


async def _trio_bounded(body: Body) -> None:
    with trio.fail_after(4 * DEADLINE_S):
        await body(Consumers(is_async=True))


RUNNERS: dict[str, Callable[[Body], None]] = {
    "threads": _in_threads,
    "trio": lambda body: trio.run(_trio_bounded, body),
    "asyncio": lambda body: asyncio.run(_bounded(body)),
}
