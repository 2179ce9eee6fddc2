"""A partition that can be moved."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.plugins.storage_file.moving.two_directories import TwoDirectories


@pytest.fixture
def place(tmp_path: Path) -> Generator[TwoDirectories]:
    """Two directories, with an empty partition in the first."""
    place = TwoDirectories(tmp_path)
    place.open()
    yield place
    place.abandon()
