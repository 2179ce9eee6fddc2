"""The format `memory`, as the configuration key `index.format` names it.

Its indexes are in a module of their own, which is loaded with the first of them: most brokers have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.seams.indexes import IndexPlace, IndexUnusable

if TYPE_CHECKING:
    from tidelog.plugins.index_memory.memory_index import MemoryBuilder, MemoryIndex


class MemoryFormat:
    """`IndexFormat` without files."""

    suffixes: tuple[str, ...] = ()

    def __init__(self, name: str = "memory") -> None:
        self.name = name

    def create(self, place: IndexPlace, max_bytes: int) -> MemoryIndex:
        """See `IndexFormat.create`."""
        from tidelog.plugins.index_memory.memory_index import MemoryIndex

        return MemoryIndex(place, max_bytes)

    def open(self, place: IndexPlace, max_bytes: int, log_bytes: int) -> MemoryIndex:
        """Never asked for, since there are no files.

        Raises:
            IndexUnusable: always.
        """
        raise IndexUnusable(f"the index of {place.path('')} in memory has no files")

    def build(self, place: IndexPlace, max_bytes: int) -> MemoryBuilder:
        """See `IndexFormat.build`."""
        from tidelog.plugins.index_memory.memory_index import MemoryBuilder

        return MemoryBuilder(self.create(place, max_bytes))
