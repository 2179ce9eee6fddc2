"""A folder for the plugins that a test makes up."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.kernel.plugins.distributions import Folder, import_folder


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Folder]:
    """An empty folder on the import path."""
    with import_folder(tmp_path) as made:
        yield made
