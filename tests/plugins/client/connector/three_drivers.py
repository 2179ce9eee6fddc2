"""The connector over each of its drivers, so that a test is written once, as async code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import trio

from tests.deadlines import DEADLINE_S
from tidelog.client import AsyncConsumerConnector, ConsumerConnector


class _BlockingStream:
    """A stream of blocking code with the methods of an async one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    async def get(self, timeout: float | None = None) -> Any:
        return self.stream.get(timeout)

    async def __aiter__(self) -> Any:
        for record in self.stream:
            yield record


class _BlockingConnector:
    """A connector of blocking code with the methods of an async one."""

    def __init__(self, connector: ConsumerConnector) -> None:
        self.connector = connector
        self.assignment = connector.assignment

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.connector.shutdown()

    def create_message_streams(self, topics: Any) -> Any:
        found = self.connector.create_message_streams(topics)
        return {topic: [_BlockingStream(each) for each in streams] for topic, streams in found.items()}

    def create_message_streams_by_filter(self, *args: Any) -> Any:
        return [_BlockingStream(each) for each in self.connector.create_message_streams_by_filter(*args)]

    async def commit_offsets(self) -> None:
        self.connector.commit_offsets()

    async def shutdown(self) -> None:
        self.connector.shutdown()


Connectors = Callable[..., Any]
Body = Callable[[Connectors], Coroutine[Any, Any, None]]


def _blocking(*args: Any, **options: Any) -> Any:
    return _BlockingConnector(ConsumerConnector(*args, **options))


def _in_threads(body: Body) -> None:
    coroutine = body(_blocking)
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("something was awaited that blocking code does not do")


async def _asyncio_bounded(body: Body) -> None:
    async with asyncio.timeout(4 * DEADLINE_S):
        await body(AsyncConsumerConnector)


async def _trio_bounded(body: Body) -> None:
    with trio.fail_after(4 * DEADLINE_S):
        await body(AsyncConsumerConnector)


RUNNERS: dict[str, Callable[[Body], None]] = {
    "threads": _in_threads,
    "trio": lambda body: trio.run(_trio_bounded, body),
    "asyncio": lambda body: asyncio.run(_asyncio_bounded(body)),
}
