"""Classic groups in a trio run, over a log in memory that can fail, load and flush."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence
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
from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.coordinator.classic_groups.factory import ClassicGroupFactory
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import (
    ClassicContext,
    RegisteredClassicGroup,
)
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.group_service import Groups
from tidelog.plugins.coordinator.groups.group import Group
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.groups.replies import ReplyQueue
from tidelog.plugins.coordinator.offsets.records import OffsetChange
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime
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


def sum_of_letters(group_id: str) -> int:
    """Return what a group's partition is computed of."""
    return sum(group_id.encode())


def partition_for(group_id: str) -> int:
    """Return a group's partition."""
    return sum_of_letters(group_id) % PARTITIONS


@attrs.define
class GroupCoordinator:
    """A coordinator of classic groups, with the fakes that it uses."""

    log: FakeLog
    runtime: CoordinatorRuntime
    offsets: OffsetStore
    registry: GroupRegistry
    classic: ClassicGroupFactory
    groups: Groups
    clock: FakeClock

    def commit(self, group_id: str, count: int = 1) -> None:
        """Let a group have offsets of so many partitions, without records."""
        table = self.offsets.table(partition_for(group_id))
        for number in range(count):
            committed = CommittedOffset(5, commit_timestamp_ms=self.clock())
            OffsetChange(group_id, ("t", number), committed).apply(table)

    def group(self, group_id: str = "g") -> Group:
        """Return the group of that id."""
        return self.registry.get(group_id)

    def classic_group(self, group_id: str = "g") -> RegisteredClassicGroup:
        """Return the classic group of that id."""
        group = self.registry.get(group_id)
        assert isinstance(group, RegisteredClassicGroup)
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
    registry, log, clock = GroupRegistry(), FakeLog(), FakeClock()
    runtime = CoordinatorRuntime("groups", log, clock, Deadlines(), sum_of_letters)

    def has_offsets(group_id: str) -> bool:
        return offsets.table(partition_for(group_id)).has_offsets(group_id)

    classic = ClassicGroupFactory(ClassicContext(runtime, registry, ReplyQueue(), settings, has_offsets))
    offsets = OffsetStore(classic.begin_simple)
    groups = Groups(runtime, registry, classic.for_join, offsets)
    return GroupCoordinator(log, runtime, offsets, registry, classic, groups, clock)


@asynccontextmanager
async def running_coordinator() -> AsyncGenerator[GroupCoordinator]:
    """Run a coordinator whose deadlines are served."""
    coordinator = new_coordinator()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.runtime.deadlines.run)
        yield coordinator
        nursery.cancel_scope.cancel()
