"""The format `memory`, as the configuration key `index.format` names it.

Its indexes are in a module of their own, which is loaded with the first of them: most brokers have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.seams.indexes import IndexFormatBase, IndexPlace

if TYPE_CHECKING:
    from tidelog.plugins.index_memory.memory_index import MemoryIndex


class MemoryFormat(IndexFormatBase):
    """`IndexFormat` without files."""

    name = "memory"

    def create(self, place: IndexPlace, max_bytes: int) -> MemoryIndex:
        """Return an empty index."""
        from tidelog.plugins.index_memory.memory_index import MemoryIndex

        return MemoryIndex(place, max_bytes)
