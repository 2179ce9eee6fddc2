"""What a plugin's author tests with; the conformance suites, which need pytest, are modules of their own."""

from __future__ import annotations

from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import FakeClock

__all__ = ["FakeClock", "make_batch"]
