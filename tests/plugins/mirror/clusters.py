"""Clusters for tests of mirrors: what is in them, and mirrors that end at a given step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import attrs
import trio

from tests.deadlines import DEADLINE_S
from tidelog.kernel.regexes import compile_regex
from tidelog.plugins.client import (
    BlockingClient,
    ClientSettings,
    FetchLimits,
    NewRecord,
    RetryPolicy,
    TopicPartition,
)
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.mirror.cluster_client import EngineClient
from tidelog.plugins.mirror.mirror import Mirror
from tidelog.plugins.mirror.settings import MirrorSettings, NameFilter

SETTINGS = ClientSettings(
    request_timeout_s=DEADLINE_S,
    operation_timeout_s=2 * DEADLINE_S,
    retry=RetryPolicy(retries=100, backoff_s=0.01, max_backoff_s=0.1, missing_topic_s=1.0),
)
COMMITTED = FetchLimits(read_committed=True, max_wait_ms=0)
Content = list[tuple[int, bytes | None, bytes | None, int, tuple[Any, ...]]]


class Crash(ClientError):
    """The process of a mirror has ended: no part of it handles this, and nothing of it runs afterwards."""


@attrs.define
class Steps:
    """Counts down the steps of a mirror to its crash; each exchange counts twice, before and after it."""

    left: int | None = None
    done: int = 0

    def step(self) -> None:
        self.done += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


class CrashingClient:
    """A client whose exchanges are counted."""

    def __init__(self, client: EngineClient, steps: Steps) -> None:
        self._client = client
        self._steps = steps

    async def run(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def counted(session: Any) -> Any:
            running = operation(session, *args, **kwargs)
            outcome: Any = None
            error: ClientError | None = None
            while True:
                try:
                    step = running.send(outcome) if error is None else running.throw(error)
                except StopIteration as end:
                    return end.value
                error = None
                self._steps.step()
                try:
                    outcome = yield step
                except ClientError as failure:
                    error = failure
                self._steps.step()

        return await self._client.run(counted)


def settings(name: str, source: str, topics: str, **others: Any) -> MirrorSettings:
    return MirrorSettings(name, source, matching(topics), **others)


def matching(*patterns: str) -> NameFilter:
    return NameFilter([compile_regex(each) for each in patterns])


@asynccontextmanager
async def mirror_of(
    mirror: MirrorSettings, target: str, steps: Steps | None = None
) -> AsyncGenerator[Mirror]:
    with ExitStack() as stack:
        counted = steps or Steps()
        source, source_admin, other = (
            CrashingClient(stack.enter_context(EngineClient(each, SETTINGS)), counted)
            for each in (mirror.bootstrap, mirror.bootstrap, target)
        )
        yield Mirror(mirror, source, source_admin, other)


def copied(mirror: MirrorSettings, target: str, steps: Steps | None = None) -> Any:
    """Copy to the end, and return the statistics; raises what the mirror does, without a group around it."""

    async def main() -> Any:
        async with mirror_of(mirror, target, steps) as running:
            await running.run_until_end()
            return running.statistics

    return trio.run(main)


def content(bootstrap: str, topic: str, partition: int = 0) -> Content:
    """Return offset, key, value, timestamp and headers of the committed records of a partition."""
    with BlockingClient(bootstrap, settings=SETTINGS) as client:
        place = TopicPartition(topic, partition)
        return [
            (each.offset, each.key, each.value, each.timestamp, tuple(each.headers))
            for each in client.read(place, 0, None, COMMITTED)
        ]


def without_offsets(records: Content) -> list[tuple[Any, ...]]:
    return [each[1:] for each in records]


def produce(
    client: BlockingClient, topic: str, *values: Sequence[NewRecord], partition: int = 0, **others: Any
) -> None:
    """Append each sequence of records as a batch."""
    for each in values:
        client.produce(TopicPartition(topic, partition), each, **others)


def some_records(*values: str, key: bytes | None = b"k") -> list[NewRecord]:
    return [
        NewRecord(value.encode(), key, [("h", b"1")], 1_000_000 + index) for index, value in enumerate(values)
    ]
