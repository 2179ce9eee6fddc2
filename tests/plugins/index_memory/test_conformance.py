"""The format in memory keeps the contract of the index seam."""

from __future__ import annotations

from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.plugins.index_memory import plugin as index_memory


class TestMemoryFormat(IndexFormatConformance, plugin=index_memory): ...
