"""A storage in files to work on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.tasks import BackgroundTasks


@pytest.fixture
async def tasks() -> AsyncGenerator[BackgroundTasks]:
    """Background work that runs for as long as the test does."""
    running = BackgroundTasks()
    async with running.running():
        yield running


@pytest.fixture
async def harness(tmp_path: Path, tasks: BackgroundTasks) -> AsyncGenerator[LogDirectoryHarness]:
    """A fresh, open storage."""
    harness = LogDirectoryHarness(tmp_path, tasks)
    await harness.open()
    yield harness
    await harness.close()
