"""The format in memory keeps the contract of the index seam."""

from __future__ import annotations

from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.plugins import index_memory


class TestMemoryFormat(IndexFormatConformance, plugin=index_memory): ...
