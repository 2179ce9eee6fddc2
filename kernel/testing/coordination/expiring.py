"""Conformance: offsets expire (KIP-211)."""

from __future__ import annotations

import pytest

from tidelog.kernel.errors import GroupIdNotFound
from tidelog.kernel.testing.coordination.harness import GROUP, TOPIC, CoordinatorHarness

MINUTE_MS = 60_000
RETENTION_MS = 10_080 * MINUTE_MS
"""The default of `offsets.retention.minutes`."""


@pytest.mark.trio
class Expiring:
    """Offsets of clients that are no members: the time counts from each commit."""

    async def test_expire_offsets_after_the_retention(self, harness: CoordinatorHarness) -> None:
        harness.commit(1, 2)
        harness.clock.advance(RETENTION_MS - 1)
        harness.commit(3)
        await harness.expire()
        assert harness.offsets() == {(TOPIC, 0): 3, (TOPIC, 1): 2}
        harness.clock.advance(1)
        await harness.expire()
        assert harness.offsets() == {(TOPIC, 0): 3}

    async def test_expire_offsets_by_the_retention_time_of_the_client(
        self, harness: CoordinatorHarness
    ) -> None:
        harness.commit(1, group_id="short", retention_ms=MINUTE_MS)
        harness.commit(2, group_id="long", retention_ms=2 * RETENTION_MS)
        harness.clock.advance(MINUTE_MS)
        await harness.expire()
        assert harness.offsets("short") == {}
        harness.clock.advance(RETENTION_MS)
        await harness.expire()
        assert harness.offsets("long") == {(TOPIC, 0): 2}

    @pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 2, 2**62])
    async def test_expire_offsets_keeps_an_unlimited_retention_time(
        self, harness: CoordinatorHarness, retention_ms: int
    ) -> None:
        harness.commit(1, retention_ms=retention_ms)
        harness.clock.advance(1000 * RETENTION_MS)
        await harness.expire()
        assert harness.offsets() == {(TOPIC, 0): 1}

    @pytest.mark.parametrize("retention_ms", [0, -2, -(2**63)])
    async def test_expire_offsets_with_a_retention_time_of_zero(
        self, harness: CoordinatorHarness, retention_ms: int
    ) -> None:
        harness.commit(1, retention_ms=retention_ms)
        await harness.expire()
        assert harness.offsets() == {}

    async def test_expire_offsets_removes_a_group_with_its_last_offset(
        self, harness: CoordinatorHarness
    ) -> None:
        harness.commit(1)
        harness.clock.advance(RETENTION_MS)
        await harness.expire()
        with pytest.raises(GroupIdNotFound):
            harness.coordinator.offsets.delete(GROUP, [(TOPIC, 0)])
