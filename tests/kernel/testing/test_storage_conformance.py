"""The suite of the storage seam: storages that wrap another one adopt it, and wrong ones do not pass."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tidelog.kernel.seams.storage import (
    ForwardingStorage,
    ForwardingStore,
    PartitionStore,
    Storage,
    StorageContext,
    TopicPartition,
)
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage import StorageConformance, StorageHarness


def wrapping(wrapped: str, wrap: Callable[[PartitionStore], PartitionStore] = ForwardingStore) -> ModuleType:
    """A plugin of strangers: a storage that wraps the installed one of that name."""

    class Wrapping(ForwardingStorage):
        def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
            return wrap(store)

    class Backend:
        name = "wrapping"
        durable = wrapped == "file"

        def create(self, context: StorageContext) -> Storage:
            return Wrapping(context.backend(wrapped).create(context))

    plugin: Any = ModuleType("stranger")
    plugin.tidelog_storage_backends = lambda: [Backend()]
    return plugin  # type: ignore[no-any-return]


@asynccontextmanager
async def harness_of(plugin: ModuleType, folder: Path) -> AsyncGenerator[StorageHarness]:
    tasks = BackgroundTasks()
    async with tasks.running():
        harness = StorageHarness(plugin, folder, tasks)
        await harness.open()
        yield harness
        await harness.close()


class TestWrapping(StorageConformance, plugin=wrapping("memory")):
    """A storage that wraps another one adopts the suite in one line."""


class DropTheLastBatch(ForwardingStore):
    """Loses the last batch when it is closed."""

    def close(self) -> None:
        """Cut it off first."""
        self.wrapped.truncate_to(self.log_end_offset - 1)
        super().close()


class NoFlush(ForwardingStore):
    """Says that it has flushed."""

    def flush(self) -> int:
        """Do nothing."""
        return self.log_end_offset


class NoOffset(ForwardingStore):
    """Does nothing at a flush, and says so."""

    def flush(self) -> int:
        """Do nothing."""
        return 0


WRONG: dict[Any, Callable[[Any, StorageHarness], Awaitable[None]]] = {
    DropTheLastBatch: StorageConformance.test_close_keeps_what_was_appended_last,
    NoFlush: StorageConformance.test_flush_makes_everything_durable,
    NoOffset: StorageConformance.test_flush_makes_everything_durable,
}


@pytest.mark.parametrize("wrap", [ForwardingStore, *WRONG], ids=lambda wrap: str(wrap.__name__))
async def test_storage_conformance_detects_a_wrong_store(
    wrap: Callable[[PartitionStore], PartitionStore], tmp_path: Path
) -> None:
    plugin = wrapping("file", wrap)
    suite = type("Suite", (StorageConformance,), {}, plugin=plugin)()
    failed: list[object] = []
    for number, test in enumerate({*WRONG.values()}):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with harness_of(plugin, folder) as harness:
            try:
                await test(suite, harness)
            except AssertionError:
                failed.append(test)
        assert (folder / "data").is_dir(), "the storage that is wrapped has a folder of the test's own"
    assert failed == [test for wrong, test in WRONG.items() if wrong is wrap]
