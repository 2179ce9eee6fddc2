"""Offset expiry asks the group, if there is one."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.coordinator.groups.group_coordinator import (
    GroupCoordinator,
    new_coordinator,
    partition_for,
    running_coordinator,
)
from tests.turns import turns_of_another_task
from tidelog.kernel import pace
from tidelog.kernel.errors import MemberIdRequired, StorageError
from tidelog.kernel.seams.coordination.groups import LeavingMember
from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange, tombstone_of
from tidelog.plugins.coordinator.offsets.expiry import OffsetExpiry
from tidelog.plugins.coordinator.offsets.records import OFFSETS_PER_BATCH, OffsetChange

RETENTION_MS = 1_000


def expiry_of(coordinator: GroupCoordinator, *group_ids: str) -> OffsetExpiry:
    """Return the expiry of a store in which these groups have committed an offset."""
    for group_id in group_ids:
        coordinator.commit(group_id)
    return OffsetExpiry(
        coordinator.runtime, coordinator.offsets, coordinator.registry, tombstone_of, RETENTION_MS
    )


@pytest.mark.parametrize("has_group", [False, True])
async def test_expire_removes_offsets_and_the_group(autojump_clock: MockClock, has_group: bool) -> None:
    coordinator = new_coordinator()
    expiry = expiry_of(coordinator, "g")
    if has_group:
        coordinator.classic.create("g")
    coordinator.clock.advance(RETENTION_MS - 1)
    await expiry.expire()
    assert coordinator.log.batches == []
    coordinator.clock.advance(1)
    await expiry.expire()
    removed = [OffsetChange("g", ("t", 0), None).to_record(), GenerationChange("g", None).to_record()]
    assert coordinator.log.batches == [(partition_for("g"), removed)]
    assert coordinator.registry.find("g") is None


@pytest.mark.parametrize("count", [2 * OFFSETS_PER_BATCH, 2 * OFFSETS_PER_BATCH + 1])
async def test_expire_writes_as_many_tombstones_as_fit_into_a_batch_and_lets_others_run(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(pace, "STEP_SECONDS", 0)
    coordinator = new_coordinator()
    expiry = expiry_of(coordinator)
    table = coordinator.offsets.table(partition_for("g"))
    coordinator.commit("g", count)
    coordinator.clock.advance(RETENTION_MS)
    async with turns_of_another_task() as turns:
        await expiry.expire()
    batches = [records for _, records in coordinator.log.batches]
    assert turns.count > 0
    assert len(batches) > 1
    assert max(map(len, batches)) <= OFFSETS_PER_BATCH + 1
    assert sum(map(len, batches)) == count + 1
    assert batches[-1][-1] == GenerationChange("g", None).to_record()
    assert not table.has_offsets("g")


async def test_expire_keeps_what_is_committed_between_two_batches(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "STEP_SECONDS", 0)
    coordinator = new_coordinator()
    expiry = expiry_of(coordinator)
    table = coordinator.offsets.table(partition_for("g"))
    old = CommittedOffset(5, commit_timestamp_ms=coordinator.clock())
    for number in range(2 * OFFSETS_PER_BATCH):
        # As loaded from the log: still in bytes.
        table.load(*OffsetChange("g", ("t", number), old).to_record())
    coordinator.clock.advance(RETENTION_MS)
    again = CommittedOffset(6, commit_timestamp_ms=coordinator.clock())
    kept = ("t", 2 * OFFSETS_PER_BATCH - 1)

    async def commit() -> None:
        while len(table) == 2 * OFFSETS_PER_BATCH:
            await trio.lowlevel.checkpoint()
        OffsetChange("g", kept, again).apply(table)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit)
        await expiry.expire()
    assert list(table.committed("g").items()) == [(kept, again)]


async def test_expire_keeps_a_group_that_members_are_about_to_join(autojump_clock: MockClock) -> None:
    coordinator = new_coordinator()
    with pytest.raises(MemberIdRequired):
        await coordinator.join(id_required=True)
    await expiry_of(coordinator).expire()
    assert coordinator.log.batches == []
    assert not coordinator.group().is_idle()


async def test_expire_counts_from_when_the_last_member_left_although_that_could_not_be_written(
    autojump_clock: MockClock,
) -> None:
    """The record that is in the log is older, and the offsets are not."""
    async with running_coordinator() as coordinator:
        joined = await coordinator.stable()
        coordinator.clock.advance(RETENTION_MS)
        expiry = expiry_of(coordinator, "g")
        coordinator.log.refusal = StorageError("full")
        await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
        coordinator.log.refusal = None
        await expiry.expire()
        assert len(coordinator.offsets.table(partition_for("g"))) == 1
        coordinator.clock.advance(RETENTION_MS)
        await expiry.expire()
        assert len(coordinator.offsets.table(partition_for("g"))) == 0
