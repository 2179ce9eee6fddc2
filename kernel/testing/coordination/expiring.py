"""Conformance: offsets expire (KIP-211)."""

from __future__ import annotations

import pytest

from tidelog.kernel.errors import GroupIdNotFound
from tidelog.kernel.testing.coordination.scene import GROUP, TOPIC, CoordinatorScene

MINUTE_MS = 60_000
RETENTION_MS = 10_080 * MINUTE_MS
"""The default of `offsets.retention.minutes`."""


@pytest.mark.trio
class Expiring:
    """Offsets of clients that are no members: the time counts from each commit."""

    async def test_expire_offsets_after_the_retention(self, scene: CoordinatorScene) -> None:
        scene.commit(1, 2)
        scene.clock.advance(RETENTION_MS - 1)
        scene.commit(3)
        await scene.expire()
        assert scene.offsets() == {(TOPIC, 0): 3, (TOPIC, 1): 2}
        scene.clock.advance(1)
        await scene.expire()
        assert scene.offsets() == {(TOPIC, 0): 3}

    async def test_expire_offsets_by_the_retention_time_of_the_client(self, scene: CoordinatorScene) -> None:
        scene.commit(1, group_id="short", retention_ms=MINUTE_MS)
        scene.commit(2, group_id="long", retention_ms=2 * RETENTION_MS)
        scene.clock.advance(MINUTE_MS)
        await scene.expire()
        assert scene.offsets("short") == {}
        scene.clock.advance(RETENTION_MS)
        await scene.expire()
        assert scene.offsets("long") == {(TOPIC, 0): 2}

    @pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 2, 2**62])
    async def test_expire_offsets_keeps_an_unlimited_retention_time(
        self, scene: CoordinatorScene, retention_ms: int
    ) -> None:
        scene.commit(1, retention_ms=retention_ms)
        scene.clock.advance(1000 * RETENTION_MS)
        await scene.expire()
        assert scene.offsets() == {(TOPIC, 0): 1}

    @pytest.mark.parametrize("retention_ms", [0, -2, -(2**63)])
    async def test_expire_offsets_with_a_retention_time_of_zero(
        self, scene: CoordinatorScene, retention_ms: int
    ) -> None:
        scene.commit(1, retention_ms=retention_ms)
        await scene.expire()
        assert scene.offsets() == {}

    async def test_expire_offsets_removes_a_group_with_its_last_offset(self, scene: CoordinatorScene) -> None:
        scene.commit(1)
        scene.clock.advance(RETENTION_MS)
        await scene.expire()
        with pytest.raises(GroupIdNotFound):
            scene.coordinator.offsets.delete(GROUP, [(TOPIC, 0)])
