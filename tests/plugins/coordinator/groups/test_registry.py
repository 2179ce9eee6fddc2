"""The registry: one group for an id, whatever its protocol."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.plugins.coordinator.groups.group_coordinator import new_coordinator, partition_for
from tidelog.kernel.errors import GroupIdNotFound, NotCoordinator, UnknownMemberId
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import RegisteredClassicGroup


async def test_get_of_an_id_without_a_group(autojump_clock: MockClock) -> None:
    registry = new_coordinator().registry
    assert registry.find("g") is None
    with pytest.raises(GroupIdNotFound, match="Group g not found"):
        registry.get("g")


async def test_put_replaces_the_group_of_that_id(autojump_clock: MockClock) -> None:
    coordinator = new_coordinator()
    first, second = coordinator.classic.create("g"), coordinator.classic.create("g")
    assert coordinator.registry.get("g") is second
    coordinator.registry.remove(first, UnknownMemberId("replaced"))
    assert coordinator.registry.get("g") is second
    coordinator.registry.remove(second, UnknownMemberId("removed"))
    assert not list(coordinator.registry)


async def test_of_partition_has_the_groups_of_that_partition(autojump_clock: MockClock) -> None:
    coordinator = new_coordinator()
    groups = {group_id: coordinator.classic.create(group_id) for group_id in "ghijkl"}
    for partition in range(coordinator.log.partition_count):
        expected = [group for group_id, group in groups.items() if partition_for(group_id) == partition]
        assert coordinator.registry.of_partition(partition) == expected
    coordinator.registry.forget_partition(partition_for("g"))
    assert [group.group_id for group in coordinator.registry] == [
        group_id for group_id in groups if partition_for(group_id) != partition_for("g")
    ]


async def test_settle_resumes_the_groups_that_are_still_there(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[str] = []
    monkeypatch.setattr(RegisteredClassicGroup, "resume", lambda group: resumed.append(group.group_id))
    coordinator = new_coordinator()
    ids = [group_id for group_id in "ghijklmno" if partition_for(group_id) == partition_for("g")]
    groups = [coordinator.classic.create(group_id) for group_id in ids]
    assert len(groups) == 3
    steps = coordinator.registry.settle(partition_for("g"))
    next(steps)
    coordinator.registry.remove(groups[1], UnknownMemberId("removed"))
    next(steps)
    assert resumed == ids[:1]
    coordinator.registry.close()
    assert list(steps) == []
    assert resumed == ids[:1]


async def test_close_refuses_what_comes_later(autojump_clock: MockClock) -> None:
    coordinator = new_coordinator()
    coordinator.classic.create("g")
    coordinator.registry.check_open()
    coordinator.registry.close()
    with pytest.raises(NotCoordinator, match="the broker stops"):
        coordinator.registry.check_open()
    assert len(coordinator.registry) == 1
