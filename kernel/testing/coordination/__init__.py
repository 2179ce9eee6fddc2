"""The conformance suite of the coordination seam: a coordinator that passes it can serve groups.

A plugin adopts it in one line, in a file that pytest collects (pytest and pytest-trio have to be there):

    class TestMyCoordinator(CoordinationConformance, coordinator="mine", durable=True): ...
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that a failing assertion shows its values.
PARTS = (
    "classic_members",
    "committing",
    "consumer_members",
    "consuming",
    "expiring",
    "grouping",
    "pending",
    "remembering",
    "harness",
    "transacting",
    "waiting",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in PARTS))

from tidelog.kernel.testing.coordination.harness import CoordinatorHarness  # noqa: E402
from tidelog.kernel.testing.coordination.suite import CoordinationConformance  # noqa: E402

__all__ = ["CoordinationConformance", "CoordinatorHarness"]
