"""Indexes in memory, rebuilt at every start; see docs/storage.md, "Index formats"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.seams.indexes import IndexFormat


@hookimpl
def tidelog_index_formats() -> Iterable[IndexFormat]:
    """Offer the format `memory`."""
    from tidelog.plugins.index_memory.format import MemoryFormat

    return (MemoryFormat(),)
