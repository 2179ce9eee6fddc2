"""The metadata store in memory keeps the contract of the metadata seam."""

from __future__ import annotations

from tidelog.kernel.testing.metadata import MetadataConformance
from tidelog.plugins.metadata_memory import plugin as metadata_memory


class TestMemoryMetadata(MetadataConformance, plugin=metadata_memory): ...
