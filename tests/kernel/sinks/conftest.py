"""A broker in memory with one sink, which a test drives by hand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.kernel.sinks.plugin import plugin_with, running
from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.sinks import SinkChange, SinkFeed
from tidelog.kernel.testing.broker import running_broker


@attrs.frozen
class RunningSink:
    """A running broker, and the feed of its sink `probe.test`, which runs until the broker stops."""

    broker: Broker
    feed: SinkFeed

    async def changes(self) -> Sequence[SinkChange]:
        """What the feed yields next; it must come soon."""
        with trio.fail_after(DEADLINE_S):
            return await self.feed.__anext__()


StartSink = Callable[..., AbstractAsyncContextManager[RunningSink]]


@pytest.fixture
def sink_with() -> StartSink:
    """Start a broker and its sink, with settings of both."""

    @asynccontextmanager
    async def make(
        settings: dict[str, object] | None = None, broker: dict[str, object] | None = None
    ) -> AsyncGenerator[RunningSink]:
        send, receive = trio.open_memory_channel[SinkFeed](1)
        finish = trio.Event()

        async def run(feed: SinkFeed) -> None:
            await send.send(feed)
            await finish.wait()

        with plugin_with(running(run)) as plugin:
            of_broker = {
                "plugins": plugin,
                "sinks": {"probe": {"test": settings or {"topics.regex": "t.*"}}},
                **(broker or {}),
            }
            async with running_broker(of_broker) as started:
                yield RunningSink(started, await receive.receive())
                finish.set()

    return make


@pytest.fixture
async def sink(sink_with: StartSink) -> AsyncGenerator[RunningSink]:
    """A sink for all topics that begin with t."""
    async with sink_with() as made:
        yield made
