"""Hooks of the coordinators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.coordination.backend import CoordinatorBackend


@hookimpl
def tidelog_group_coordinators() -> Iterable[CoordinatorBackend]:
    """Return the backends `classic` and `memory`."""
    from tidelog.plugins.coordinator.backends import ClassicBackend, MemoryCoordinatorBackend

    return (ClassicBackend(), MemoryCoordinatorBackend())


@hookimpl
def tidelog_partition_assignors() -> Iterable[PartitionAssignor]:
    """Return the assignors `uniform` and `range`."""
    from tidelog.plugins.coordinator.assignors import RangeAssignor, UniformAssignor

    return (UniformAssignor(), RangeAssignor())


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of groups, offsets, transactions and their logs."""
    from tidelog.kernel.config import declared_keys
    from tidelog.plugins.coordinator import keys
    from tidelog.plugins.coordinator.consumer_groups import keys as consumer_group_keys

    return declared_keys(keys, consumer_group_keys)


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of both backends."""
    from tidelog.plugins.coordinator.conformance import (
        ClassicCoordinatorConformance,
        MemoryCoordinatorConformance,
    )

    return (ClassicCoordinatorConformance, MemoryCoordinatorConformance)
