"""Kafka's own index files keep the contract of the index seam."""

from __future__ import annotations

from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.plugins.storage_file import plugin as storage_file


class TestSparseFormat(IndexFormatConformance, plugin=storage_file): ...
