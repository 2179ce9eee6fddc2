"""`Offsets`: the offsets of large groups in steps, and what the log refuses; the rest is in other tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.plugins.coordinator.groups.group_coordinator import FakeLog
from tests.plugins.coordinator.offsets.test_machine import FakeTopics
from tidelog.kernel.errors import StorageError
from tidelog.kernel.pace import ITEMS_PER_STEP, run_to_end
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.offsets.records import OffsetChange
from tidelog.plugins.coordinator.offsets.service import Offsets
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime import LoadedBatch
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topics

OFFSETS = 1_000
OF_GROUP = {("t", index): CommittedOffset(index, metadata="of the client") for index in range(OFFSETS)}


class NoTopics:
    """Topics that fetching does not ask for."""


def loaded_offsets(store: OffsetStore) -> Offsets:
    """A service that has read the offsets of one group back, and decoded none."""
    records = [OffsetChange("g", tp, committed).to_record() for tp, committed in OF_GROUP.items()]
    batch = LoadedBatch(0, records)
    for index in range(OFFSETS):
        store.replay(0, batch, index)
    store.loaded(0)
    groups = GroupRegistry()
    groups.put(AnyGroup())  # type: ignore[arg-type]
    topics: Any = NoTopics()
    runtime = CoordinatorRuntime("groups", FakeLog(), FakeClock(), Deadlines(), lambda group_id: 0)
    return Offsets(runtime, store, groups, groups.find, topics, 4096)


def new_store() -> OffsetStore:
    """A store without offsets."""
    return OffsetStore(lambda group_id: None)


class AnyGroup:
    """A group whose offsets anybody may fetch."""

    group_id = "g"
    partition = 0

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Accept it."""


def test_all_offsets_of_a_group_that_was_read_back_are_fetched_in_steps() -> None:
    """50,000 of them took 250 ms in one."""
    steps, count = loaded_offsets(new_store()).fetch_in_steps(OffsetFetch("g", None)), 0
    fetched: FetchedOffsets = {}
    while not fetched:
        try:
            next(steps)
            count += 1
        except StopIteration as done:
            fetched = done.value
    assert {("t", index): found for index, found in fetched["t"].items()} == OF_GROUP
    assert count >= OFFSETS / ITEMS_PER_STEP


def test_an_offset_that_is_removed_while_all_are_fetched_is_left_out() -> None:
    store = new_store()
    offsets = loaded_offsets(store)
    steps = offsets.fetch_in_steps(OffsetFetch("g", None))
    next(steps)
    store.table(0).remove("g", ("t", OFFSETS - 1))
    assert len(run_to_end(steps)["t"]) == OFFSETS - 1


class CommittingGroup(AnyGroup):
    """A group whose only member may commit; it notes that this one is alive."""

    commits = 0

    def check_commit(self, commit: OffsetCommit) -> None:
        """Accept it."""

    def extend_session_of_commit(self, commit: OffsetCommit) -> None:
        """Count it."""
        self.commits += 1


def test_a_commit_that_the_log_refuses_creates_no_group() -> None:
    created, log, topics = list[str](), FakeLog(), cast("Topics", FakeTopics())
    runtime = CoordinatorRuntime("groups", log, FakeClock(), Deadlines(), lambda group_id: 0)
    offsets = Offsets(runtime, new_store(), GroupRegistry(), created.append, topics, 4096)
    request = OffsetCommit("g", [OffsetToCommit("t", 0, 5)])
    log.refusal = StorageError("full")
    with pytest.raises(StorageError):
        offsets.commit(request)
    assert created == []
    log.refusal = None
    assert offsets.commit(request).errors == [None]
    assert created == ["g"]


def test_a_commit_extends_the_session_of_its_member_although_the_log_refuses_it() -> None:
    groups, group, log = GroupRegistry(), CommittingGroup(), FakeLog()
    groups.put(group)  # type: ignore[arg-type]
    runtime = CoordinatorRuntime("groups", log, FakeClock(), Deadlines(), lambda group_id: 0)
    offsets = Offsets(runtime, new_store(), groups, groups.find, cast("Topics", FakeTopics()), 4096)
    offsets.commit(OffsetCommit("g", [OffsetToCommit("unknown", 0, 5)], 1, "m"))
    assert group.commits == 0
    log.refusal = StorageError("full")
    with pytest.raises(StorageError):
        offsets.commit(OffsetCommit("g", [OffsetToCommit("t", 0, 5)], 1, "m"))
    assert group.commits == 1
