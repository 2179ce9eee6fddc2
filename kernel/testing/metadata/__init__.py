"""The conformance suite of the metadata seam: a store that passes it can be named by the key `metadata`.

A plugin adopts it in one line, in a file that pytest collects (pytest and pytest-trio have to be there):

    class TestMyMetadata(MetadataConformance, plugin=my_plugin): ...
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that a failing assertion shows its values.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("harness", "suite")))

from tidelog.kernel.testing.metadata.harness import MetadataHarness  # noqa: E402
from tidelog.kernel.testing.metadata.suite import MetadataConformance  # noqa: E402

__all__ = ["MetadataConformance", "MetadataHarness"]
