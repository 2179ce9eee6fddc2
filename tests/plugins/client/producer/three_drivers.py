"""The producer over each of its drivers, so that a test is written once, as async code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import trio

from tests.deadlines import DEADLINE_S
from tidelog.client import AsyncProducer, Delivery, Producer


class _BlockingDelivery:
    """A delivery that blocks where another one is awaited."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from ()
        return self.delivery.result(DEADLINE_S)

    def done(self) -> bool:
        return self.delivery.done()

    def exception(self) -> Any:
        return self.delivery.exception(0)


class _BlockingProducer:
    """`Producer` with the methods of `AsyncProducer`, none of which waits for an event loop."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self.producer = Producer(bootstrap, **options)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.producer.close(DEADLINE_S)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self.producer, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            return _BlockingDelivery(found) if isinstance(found, Delivery) else found

        return call


Body = Callable[[Callable[..., Any]], Coroutine[Any, Any, None]]


def _in_threads(body: Body) -> None:
    coroutine = body(_BlockingProducer)
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("something was awaited that blocking code does not do")


async def _bounded(body: Body) -> None:
    async with asyncio.timeout(4 * DEADLINE_S):
        await body(AsyncProducer)


async def _trio_bounded(body: Body) -> None:
    with trio.fail_after(4 * DEADLINE_S):
        await body(AsyncProducer)


RUNNERS: dict[str, Callable[[Body], None]] = {
    "threads": _in_threads,
    "trio": lambda body: trio.run(_trio_bounded, body),
    "asyncio": lambda body: asyncio.run(_bounded(body)),
}
