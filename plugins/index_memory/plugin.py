"""Hook of the index format `memory`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl
from tidelog.kernel.seams.indexes import IndexFormatBase

if TYPE_CHECKING:
    from tidelog.kernel.seams.indexes import IndexFormat, IndexPlace
    from tidelog.plugins.index_memory.memory_index import MemoryIndex


class MemoryFormat(IndexFormatBase):
    """`IndexFormat` without files; the indexes' module is imported with the first of them."""

    name = "memory"

    def create(self, place: IndexPlace, max_bytes: int) -> MemoryIndex:
        """Return an empty index."""
        from tidelog.plugins.index_memory.memory_index import MemoryIndex

        return MemoryIndex(place, max_bytes)


@hookimpl
def tidelog_index_formats() -> Iterable[IndexFormat]:
    """Offer the format `memory`."""
    return (MemoryFormat(),)
