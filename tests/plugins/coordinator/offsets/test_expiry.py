"""Offset expiry asks the group, if there is one."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.plugins.coordinator.groups.group_coordinator import (
    GroupCoordinator,
    new_coordinator,
    partition_for,
)
from tidelog.kernel.errors import MemberIdRequired
from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.classic_groups.changes import GenerationChange
from tidelog.plugins.coordinator.offsets.changes import OffsetChange
from tidelog.plugins.coordinator.offsets.expiry import OffsetExpiry
from tidelog.plugins.coordinator.offsets.store import OffsetStore

RETENTION_MS = 1_000


def expiry_of(coordinator: GroupCoordinator, *group_ids: str) -> OffsetExpiry:
    """Return the expiry of a store in which these groups have committed an offset."""
    store = OffsetStore(partition_for, lambda group_id: None)
    for group_id in group_ids:
        committed = CommittedOffset(5, commit_timestamp_ms=coordinator.clock())
        OffsetChange(group_id, ("t", 0), committed).apply(store.table(partition_for(group_id)))
    return OffsetExpiry(coordinator.log, store, coordinator.registry, coordinator.clock, RETENTION_MS)


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


async def test_expire_keeps_a_group_that_members_are_about_to_join(autojump_clock: MockClock) -> None:
    coordinator = new_coordinator()
    with pytest.raises(MemberIdRequired):
        await coordinator.join(id_required=True)
    await expiry_of(coordinator).expire()
    assert coordinator.log.batches == []
    assert not coordinator.group().is_idle()
