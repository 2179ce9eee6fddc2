"""The conformance suite of the index seam: a format that passes it can be named by `index.format`.

A plugin adopts it in one line, in a file that pytest collects (pytest has to be there):

    class TestMyFormat(IndexFormatConformance, plugin=my_plugin): ...
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that a failing assertion shows its values.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("model", "suite")))

from tidelog.kernel.testing.indexes.model import Entry, ModelIndex  # noqa: E402
from tidelog.kernel.testing.indexes.suite import IndexFormatConformance  # noqa: E402

__all__ = ["Entry", "IndexFormatConformance", "ModelIndex"]
