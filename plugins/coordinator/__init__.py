"""Coordination of groups, their offsets and transactions: durable (`classic`) or forgetful (`memory`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config.key import ConfigKey
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.coordination.backend import CoordinatorBackend


@hookimpl
def tidelog_group_coordinators() -> Iterable[CoordinatorBackend]:
    """The backends `classic` and `memory`."""
    from tidelog.plugins.coordinator.backends import ClassicBackend, MemoryBackend

    return (ClassicBackend(), MemoryBackend())


@hookimpl
def tidelog_partition_assignors() -> Iterable[PartitionAssignor]:
    """The assignors `uniform` and `range`."""
    from tidelog.plugins.coordinator.assignors import RangeAssignor, UniformAssignor

    return (UniformAssignor(), RangeAssignor())


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[Any]]:
    """How offsets are kept."""
    from tidelog.plugins.coordinator import keys

    return keys.ALL
