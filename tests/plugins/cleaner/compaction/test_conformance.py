"""Compaction is a cleanup policy as every other."""

from __future__ import annotations

from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.plugins.cleaner import plugin as cleaner


class TestCompaction(CleanupPolicyConformance, plugin=cleaner):
    keeps_newest = True
    topic_settings = (
        {},
        {"min.cleanable.dirty.ratio": "0"},
        {"min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "86400000"},
        {"max.compaction.lag.ms": "1"},
    )
