"""The coordinator that tests of transactions share."""

from __future__ import annotations

import pytest

from tests.plugins.coordinator.transactions.coordinator import CrashingCoordinator


@pytest.fixture
def coordinator() -> CrashingCoordinator:
    """A coordinator without transactions."""
    return CrashingCoordinator()
