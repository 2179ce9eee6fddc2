"""The suite itself: all parts in one class, and the harness of each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.aborting import Aborting
from tidelog.kernel.testing.storage.appending import Appending
from tidelog.kernel.testing.storage.harness import StorageHarness
from tidelog.kernel.testing.storage.lifecycle import Lifecycle, SideFileKeeping
from tidelog.kernel.testing.storage.lookups import Lookups
from tidelog.kernel.testing.storage.random_walk import RandomWalk
from tidelog.kernel.testing.storage.reading import Reading
from tidelog.kernel.testing.storage.removing import Removing
from tidelog.kernel.testing.storage.replacing import Replacing
from tidelog.kernel.testing.storage.rewriting import Rewriting


class StorageConformance(
    Appending,
    Reading,
    Aborting,
    Lookups,
    Removing,
    Replacing,
    Rewriting,
    SideFileKeeping,
    Lifecycle,
    RandomWalk,
):
    """Everything that the kernel relies on; `plugin` is the module with the hooks of the backend to prove.

    `settings` are configuration keys to set for it, beside `log.dirs`, which is set when the plugin has it.
    `index_formats` is another plugin, with formats for its indexes.
    """

    plugin: ClassVar[ModuleType]
    settings: ClassVar[dict[str, object]] = {}
    index_formats: ClassVar[ModuleType | None] = None

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncGenerator[StorageHarness]:
        """Yield a new, open storage of the backend."""
        tasks = BackgroundTasks()
        async with tasks.running():
            harness = StorageHarness(self.plugin, tmp_path, tasks, dict(self.settings), self.index_formats)
            await harness.open()
            try:
                yield harness
            finally:
                await harness.close()
