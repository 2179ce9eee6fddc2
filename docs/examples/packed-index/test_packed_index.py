"""The format keeps the contract of its seam."""

import packed_index

from tidelog.kernel.testing.indexes import IndexFormatConformance


class TestPacked(IndexFormatConformance, plugin=packed_index): ...
