"""Any sequence of transactions, stops, crashes and truncations leaves what the model says, in files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.in_memory import memory_folder
from tests.kernel.log.transaction_model import CONFIG, TransactionalLog
from tests.plugins.storage_file.files import IdleTasks, LogDirectoryHarness, append_to, cut
from tidelog.kernel.seams.storage import PartitionStore


class InFiles(TransactionalLog):
    """Above the file backend; a crash goes on with a copy of the files as they are."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tidelog-transactions-", dir=memory_folder()))
        self.number = 0
        self.harness = LogDirectoryHarness(self.root / "0", IdleTasks())
        super().__init__()

    def store(self, *, clean: bool) -> PartitionStore:
        """Opened again on the same files, or on their copy."""
        if self.number:
            if clean:
                trio.run(self.harness.close)
                self.harness.storage = self.harness.new_storage()
            else:
                self.leave()
        self.number += 1

        async def run() -> PartitionStore:
            await self.harness.open()
            return (await self.harness.storage.open_partitions([self.harness.spec(config=CONFIG)]))[0]

        return trio.run(run)

    def leave(self) -> None:
        """Stop as a crash does."""
        crashed = self.harness.crash(self.root / str(self.number))
        self.harness.abandon()
        self.harness = crashed

    def indexes(self) -> list[Path]:
        """The transaction indexes, oldest first."""
        return sorted(self.harness.partition_dir.glob("*.txnindex"))

    @rule(number=st.integers(0, 20))
    def stop_and_start_with_a_torn_index(self, number: int) -> None:
        """Any of them may have lost a part of its last entry."""
        indexes = self.indexes()
        self.partition.close()
        if indexes:
            path = indexes[number % len(indexes)]
            cut(path, max(path.stat().st_size - 1, 0))
        self.partition = self.opened(clean=True)

    @rule(lost=st.booleans())
    def crash_with_damage_to_what_was_not_flushed(self, lost: bool) -> None:
        """What belongs to the active segment may be gone, or more than was written."""
        active = self.harness.log_files()[-1].with_suffix(".txnindex")
        if lost:
            active.unlink(missing_ok=True)
        elif active.exists():
            append_to(active, b"\0" * 34)
        self.partition = self.opened(clean=False)

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.harness.abandon()
        shutil.rmtree(self.root)


TestInFiles = InFiles.TestCase
TestInFiles.settings = settings(
    max_examples=15,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
)
