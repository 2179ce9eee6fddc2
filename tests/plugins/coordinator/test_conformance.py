"""Both backends pass the conformance suite."""

from __future__ import annotations

from tidelog.plugins.coordinator.conformance import (
    ClassicCoordinatorConformance,
    MemoryCoordinatorConformance,
)


class TestClassic(ClassicCoordinatorConformance): ...


class TestMemory(MemoryCoordinatorConformance): ...
