"""The suite of coordinators for both backends."""

from __future__ import annotations

from typing import ClassVar

from tidelog.kernel.testing.coordination import CoordinationConformance


class ClassicCoordinatorConformance(CoordinationConformance, coordinator="classic", durable=True):
    """State in internal topics, few partitions for speed."""

    settings: ClassVar[dict[str, object]] = {
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 2,
    }


class MemoryCoordinatorConformance(CoordinationConformance, coordinator="memory"):
    """State in memory."""
