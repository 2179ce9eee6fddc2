"""Both backends pass the conformance suite."""

from __future__ import annotations

from typing import ClassVar

from tidelog.kernel.testing.coordination import CoordinationConformance


class TestClassic(CoordinationConformance, coordinator="classic", durable=True):
    """State in internal topics, few partitions for speed."""

    settings: ClassVar[dict[str, object]] = {
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 2,
    }


class TestMemory(CoordinationConformance, coordinator="memory"): ...
