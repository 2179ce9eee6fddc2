"""Classic groups in a trio run, over a log in memory that can fail, load and flush."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from tests.plugins.coordinator.classic_groups.driver import CONSUMER, REBALANCE_MS, SESSION_MS
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.metadata import ImageChange
from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
from tidelog.kernel.seams.coordination.groups import (
    Assignment,
    GroupProtocol,
    Joined,
    JoinRequest,
    Synced,
    SyncRequest,
)
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.coordinator.classic_groups.live_group import ClassicContext, LiveClassicGroup
from tidelog.plugins.coordinator.classic_groups.manager import ClassicGroups
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.groups.group import Group
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.groups.replies import ReplyQueue
from tidelog.plugins.coordinator.groups.service import Groups
from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.state_log import LogReader

PARTITIONS = 3


class FakeLog:
    """A `StateLog` that keeps its batches."""

    def __init__(self) -> None:
        self.progress = CoordinatorLoadCounts()
        self.batches: list[tuple[int, Sequence[StateRecord]]] = []
        self.inactive: dict[int, BrokerError] = {}
        self.refusal: BrokerError | None = None
        self.flush_due = False
        self.flushed = trio.Event()
        self.flush_error: BrokerError | None = None

    @property
    def partition_count(self) -> int:
        return PARTITIONS

    def check_active(self, partition: int) -> None:
        if partition in self.inactive:
            raise self.inactive[partition]

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        self.check_active(partition)
        if self.refusal is not None:
            raise self.refusal
        self.batches.append((partition, records))
        return AppendResult(0, len(records) - 1, -1, self.flush_due)

    async def committed(self, partition: int, result: AppendResult) -> None:
        if result.flush_due:
            await self.flushed.wait()
            if self.flush_error is not None:
                raise self.flush_error

    async def ensure(self) -> None:
        pass

    def open(self, reader: LogReader) -> None:
        pass

    def follow(self, change: ImageChange) -> None:
        pass

    def close(self) -> None:
        pass


class FakeOffsets:
    """The partitions for which groups have an offset."""

    def __init__(self) -> None:
        self.of: dict[str, list[PartitionKey]] = {}
        self.passes = 0

    def count(self, group_id: str) -> int:
        return len(self.of.get(group_id, []))

    def partitions(self, group_id: str) -> Iterator[PartitionKey]:
        self.passes += 1
        return iter(self.of.get(group_id, []))

    def tombstones(self, group_id: str, partitions: Iterable[PartitionKey]) -> list[StateRecord]:
        return [OffsetChange(group_id, tp, None).to_record() for tp in partitions]

    def holds(self, group_id: str) -> bool:
        return group_id in self.of

    def forget(self, group_id: str, partitions: Iterable[PartitionKey]) -> None:
        gone = set(partitions)
        left = [tp for tp in self.of.pop(group_id, []) if tp not in gone]
        if left:
            self.of[group_id] = left


def partition_for(group_id: str) -> int:
    """Return a group's partition, by the sum of its letters."""
    return sum(group_id.encode()) % PARTITIONS


@attrs.define
class GroupCoordinator:
    """A coordinator of classic groups, with the fakes that it uses."""

    log: FakeLog
    offsets: FakeOffsets
    deadlines: Deadlines
    registry: GroupRegistry
    classic: ClassicGroups
    groups: Groups
    clock: FakeClock

    def group(self, group_id: str = "g") -> Group:
        """Return the group of that id."""
        return self.registry.get(group_id)

    def classic_group(self, group_id: str = "g") -> LiveClassicGroup:
        """Return the classic group of that id."""
        group = self.registry.get(group_id)
        assert isinstance(group, LiveClassicGroup)
        return group

    async def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        id_required: bool = False,
        metadata: bytes = b"r",
    ) -> Joined:
        """Let a member join."""
        joined = self.groups.join(
            JoinRequest(
                group_id,
                member_id,
                CONSUMER,
                [GroupProtocol("range", metadata)],
                session_ms,
                REBALANCE_MS,
                "c",
                "/127.0.0.1",
                instance,
                knows_member_id_required=id_required,
            )
        )
        return joined if isinstance(joined, Joined) else await joined

    async def sync(
        self, joined: Joined, shares: dict[str, bytes] | None = None, group_id: str = "g"
    ) -> Synced:
        """Sync a member; the leader sends `shares`."""
        assignments = [Assignment(member_id, share) for member_id, share in (shares or {}).items()]
        synced = self.groups.sync(
            SyncRequest(group_id, joined.member_id, joined.generation, assignments=assignments)
        )
        return synced if isinstance(synced, Synced) else await synced

    async def stable(self, group_id: str = "g", *, session_ms: int = SESSION_MS) -> Joined:
        """Create a stable group of one member, whose assignment is `share`."""
        joined = await self.join(group_id, session_ms=session_ms)
        await self.sync(joined, {joined.member_id: b"share"}, group_id)
        return joined


def new_coordinator() -> GroupCoordinator:
    """Return a coordinator whose deadlines are not served."""
    numbers = itertools.count(1)
    settings = GroupSettings(lambda prefix: f"{prefix}-{next(numbers)}")
    registry, deadlines, log, offsets = GroupRegistry(), Deadlines(), FakeLog(), FakeOffsets()
    clock = FakeClock()
    context = ClassicContext(registry, log, ReplyQueue(), deadlines, settings, clock, offsets.holds)
    classic = ClassicGroups(context, partition_for)
    groups = Groups(registry, log, partition_for, classic.for_join, offsets)
    return GroupCoordinator(log, offsets, deadlines, registry, classic, groups, clock)


@asynccontextmanager
async def running_coordinator() -> AsyncGenerator[GroupCoordinator]:
    """Run a coordinator whose deadlines are served."""
    coordinator = new_coordinator()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.deadlines.run)
        yield coordinator
        nursery.cancel_scope.cancel()
