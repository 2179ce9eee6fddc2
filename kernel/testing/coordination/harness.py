"""What the tests of the suite play on: a broker with the coordinator to prove, and short ways to ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.coordination.backend import Coordinator
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.testing.broker import new_broker
from tidelog.kernel.testing.clock import FakeClock

TOPIC = "flights"
PARTITIONS = 3
GROUP = "group"


class CoordinatorHarness:
    """A broker with one topic, `TOPIC`, whose clock is moved by the test."""

    def __init__(self, settings: Mapping[str, object], nursery: trio.Nursery) -> None:
        self.clock = FakeClock()
        self.broker: Broker
        self._settings = settings
        self._nursery = nursery
        self._stopped = trio.Event()

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator to prove."""
        return self.broker.coordinator

    async def start(self) -> None:
        """Run a broker, and have all that is remembered brought back."""
        self.broker = await self._nursery.start(self._run)
        if self.broker.topics.find(TOPIC) is None:
            await self.broker.topics.create(TopicSpec(TOPIC, PARTITIONS))
        await self.coordinator.prepare_groups()
        await self.coordinator.prepare_transactions()
        while not all(progress.done for progress in self.coordinator.loading.values()):
            await trio.lowlevel.checkpoint()

    async def stop(self) -> None:
        """Stop the broker gracefully."""
        self.broker.request_stop()
        await self._stopped.wait()

    async def restart(self) -> None:
        """Restart the broker with the same settings."""
        await self.stop()
        await self.start()

    async def _run(self, task_status: trio.TaskStatus[Broker]) -> None:
        self._stopped = trio.Event()
        async with new_broker(self._settings, clock=self.clock).running() as broker:
            task_status.started(broker)
            await broker.wait_stop_requested()
        self._stopped.set()

    async def expire(self) -> None:
        """Let the coordinator look for what has expired, as it does now and then."""
        await self.coordinator.expire()

    def commit(
        self,
        *offsets: int,
        group_id: str = GROUP,
        topic: str = TOPIC,
        metadata: str | None = "",
        retention_ms: int = -1,
    ) -> Sequence[BrokerError | None]:
        """Commit these for partitions 0, 1 and so on, as no member."""
        to_commit = [
            OffsetToCommit(topic, partition, offset, metadata=metadata)
            for partition, offset in enumerate(offsets)
        ]
        request = OffsetCommit(group_id, to_commit, retention_time_ms=retention_ms)
        return self.coordinator.offsets.commit(request).errors

    def fetch(
        self, *partitions: int, group_id: str = GROUP, topic: str = TOPIC, stable: bool = False
    ) -> list[CommittedOffset | BrokerError | None]:
        """Return what is committed for these partitions."""
        request = OffsetFetch(group_id, {topic: list(partitions)}, require_stable=stable)
        fetched = self.coordinator.offsets.fetch(request)[topic]
        return [fetched[partition] for partition in partitions]

    def offsets(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        """Everything that a group has committed."""
        fetched = self.coordinator.offsets.fetch(OffsetFetch(group_id, None))
        return {
            (topic, partition): found.offset
            for topic, partitions in fetched.items()
            for partition, found in partitions.items()
            if isinstance(found, CommittedOffset)
        }
