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
class Scene:
    """A running broker, and the feed of its sink `probe.test`, which runs until the broker stops."""

    broker: Broker
    feed: SinkFeed

    async def changes(self) -> Sequence[SinkChange]:
        """What the feed yields next; it must come soon."""
        with trio.fail_after(DEADLINE_S):
            return await self.feed.__anext__()


SceneMaker = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def scene_with() -> SceneMaker:
    """Makes a scene with settings of the sink and of the broker."""

    @asynccontextmanager
    async def make(
        sink: dict[str, object] | None = None, broker: dict[str, object] | None = None
    ) -> AsyncGenerator[Scene]:
        send, receive = trio.open_memory_channel[SinkFeed](1)
        finish = trio.Event()

        async def run(feed: SinkFeed) -> None:
            await send.send(feed)
            await finish.wait()

        with plugin_with(running(run)) as plugin:
            settings = {
                "plugins": plugin,
                "sinks": {"probe": {"test": sink or {"topics.regex": "t.*"}}},
                **(broker or {}),
            }
            async with running_broker(settings) as started:
                yield Scene(started, await receive.receive())
                finish.set()

    return make


@pytest.fixture
async def scene(scene_with: SceneMaker) -> AsyncGenerator[Scene]:
    """A sink for all topics that begin with t."""
    async with scene_with() as made:
        yield made
