"""What a new kind of coordinator has to bring: one that grants leases, which is `Lease` and `Leases`."""

from __future__ import annotations

from functools import partial
from typing import Self

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.plugins.coordinator.groups.group_coordinator import FakeLog
from tidelog.kernel.errors import ConcurrentTransactions, StorageError
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.coordinator.runtime import LoadedBatch
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.durable_change import DurableChange, VersionedValue
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime, CoordinatorState
from tidelog.plugins.schema.declare import VersionSpan, string, struct


@struct(VersionSpan(0, 0))
class Text:
    text: str = string()


@attrs.frozen
class Lease(DurableChange["dict[str, str]"]):
    key_type, key_schema, value_schema = 99, Text, Text
    name: str
    holder: str | None

    def key(self) -> Text:
        return Text(text=self.name)

    def value(self) -> VersionedValue | None:
        return (self.holder and VersionedValue(0, Text(text=self.holder))) or None

    def apply(self, state: dict[str, str]) -> None:
        state.pop(self.name, None) if self.holder is None else state.update({self.name: self.holder})

    @classmethod
    def from_messages(cls, key: Text, value: Text | None) -> Self:
        return cls(key.text, None if value is None else value.text)


class Leases(CoordinatorState):
    record_types = (Lease.key_type,)

    def __init__(self, runtime: CoordinatorRuntime) -> None:
        self.runtime, self.held = runtime, dict[int, dict[str, str]]()

    def take(self, name: str, holder: str) -> None:
        partition = self.runtime.active_partition_for(name)
        if self.held.setdefault(partition, {}).get(name, holder) != holder:
            raise ConcurrentTransactions(f"{name} is held")
        self.runtime.write(partition, self.held[partition], [Lease(name, holder)])
        self._expire_later(partition, name)

    def _expire_later(self, partition: int, name: str) -> None:
        at_ms = self.runtime.deadlines.now_ms() + 1_000
        self.runtime.deadlines.schedule(name, at_ms, partial(self._expire, partition, name))

    def _expire(self, partition: int, name: str) -> None:
        self.runtime.write(partition, self.held[partition], [Lease(name, None)])

    def replay(self, partition: int, batch: LoadedBatch, index: int) -> None:
        Lease.from_record(*batch.records[index]).apply(self.held.setdefault(partition, {}))

    def loaded(self, partition: int) -> None:
        for name in self.held.get(partition, {}):
            self._expire_later(partition, name)

    def forget(self, partition: int) -> None:
        for name in self.held.pop(partition, {}):
            self.runtime.deadlines.cancel(name)


class OpenLeases:
    """A broker's leases over a log in memory."""

    def __init__(self) -> None:
        self.log, self.now_s = FakeLog(), 0.0
        deadlines = Deadlines(lambda: self.now_s)
        self.runtime = CoordinatorRuntime("__leases", self.log, FakeClock(), deadlines)
        self.leases = Leases(self.runtime)
        self.runtime.open(self.leases)
        self.partition = self.runtime.partition_for("l")

    @property
    def held(self) -> dict[str, str]:
        """The leases in the partition of `l`."""
        return self.leases.held.get(self.partition, {})

    def read_back(self) -> None:
        """Lead the partition again: all of its log is read."""
        for partition, records in self.log.batches:
            run_to_end(self.runtime.replay(partition, LoadedBatch(0, records)))
        run_to_end(self.runtime.settle(self.partition))
        self.runtime.loaded(self.partition)


@pytest.fixture
def opened() -> OpenLeases:
    return OpenLeases()


def test_write_and_refusal(opened: OpenLeases) -> None:
    opened.leases.take("l", "a")
    assert opened.log.batches == [(opened.partition, [Lease("l", "a").to_record()])]
    with pytest.raises(ConcurrentTransactions):
        opened.leases.take("l", "b")
    opened.log.refusal = StorageError("full")
    with pytest.raises(StorageError):
        opened.leases.take("m", "b")
    assert opened.leases.held[opened.runtime.partition_for("m")] == {}
    assert opened.held == {"l": "a"}


def test_unload_and_load(opened: OpenLeases) -> None:
    opened.leases.take("l", "a")
    opened.runtime.forget(opened.partition)
    assert opened.held == {}
    assert not len(opened.runtime.deadlines)
    opened.read_back()
    assert opened.held == {"l": "a"}
    assert len(opened.runtime.deadlines) == 1


@pytest.mark.parametrize("moves", [False, True], ids=["led all the time", "loaded again"])
async def test_timer(autojump_clock: MockClock, moves: bool) -> None:
    opened = OpenLeases()
    opened.leases.take("l", "a")
    if moves:
        opened.runtime.forget(opened.partition)
        opened.read_back()
    opened.now_s = 2.0
    with trio.move_on_after(1):
        await opened.runtime.deadlines.run()
    assert opened.held == {}
    opened.runtime.forget(opened.partition)
    opened.read_back()
    assert opened.held == {}, "the tombstone is in the log"
