"""A storage in files to work on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryScene
from tidelog.kernel.tasks import BackgroundTasks


@pytest.fixture
async def tasks() -> AsyncGenerator[BackgroundTasks]:
    """Background work that runs for as long as the test does."""
    running = BackgroundTasks()
    async with running.running():
        yield running


@pytest.fixture
async def scene(tmp_path: Path, tasks: BackgroundTasks) -> AsyncGenerator[LogDirectoryScene]:
    """A fresh, open storage."""
    scene = LogDirectoryScene(tmp_path, tasks)
    await scene.open()
    yield scene
    await scene.close()
