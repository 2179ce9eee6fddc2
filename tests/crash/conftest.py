"""A place for thousands of small trees."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def place(tmp_path: Path) -> Generator[Path]:
    """A directory in memory where the system has one, which a test that fails leaves as it is."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    in_memory = Path(tempfile.mkdtemp(prefix="tidelog-crash-", dir=MEMORY))
    yield in_memory
    shutil.rmtree(in_memory)
