"""The metadata log keeps the contract of the metadata seam."""

from __future__ import annotations

from tidelog.kernel.testing.metadata import MetadataConformance
from tidelog.plugins.metadata_kraft import plugin as metadata_kraft


class TestKraftMetadata(MetadataConformance, plugin=metadata_kraft): ...
