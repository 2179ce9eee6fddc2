"""Any sequence of operations, crashes and damage leaves a log that a simple model allows."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.in_memory import memory_folder
from tests.plugins.storage_file.files import (
    IdleTasks,
    LogDirectoryHarness,
    append_to,
    batches_in,
    cut,
    overwrite,
)
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage import ModelLog
from tidelog.kernel.testing.storage.harness import append, read_all, read_bytes
from tidelog.plugins.storage_file.directories.checkpoints import RECOVERY_POINT_CHECKPOINT, read_checkpoint

SETTINGS = {"segment_bytes": 2500, "index_interval_bytes": 200, "segment_index_bytes": 200}
NONSENSE = st.sampled_from(
    [b"\0", b"\0" * 500, b"\xff" * 300, bytes(range(200)), b"\0" * 7 + b"\x09\0\0\0\x40"]
)

CRC_COVERS_FROM = 21


class CrashingLog(RuleBasedStateMachine):
    """A partition in files beside a list of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="tidelog-crash-", dir=memory_folder()))
        self.number = 0
        self.model = ModelLog()
        self.harness = LogDirectoryHarness(self.root / "0", IdleTasks())
        self.store: PartitionStore

    @initialize()
    def begin(self) -> None:
        self.open()

    def open(self) -> None:
        async def run() -> PartitionStore:
            await self.harness.open()
            return await self.harness.open_store(**SETTINGS)

        self.store = trio.run(run)

    @rule(
        size=st.sampled_from([1, 100, 700, 2000]),
        gap=st.sampled_from([0, 0, 0, 5]),
        records=st.integers(1, 4),
        later_ms=st.integers(0, 1000),
    )
    def append(self, size: int, gap: int, records: int, later_ms: int) -> None:
        self.model.append(append(self.store, size, gap=gap, records=records, timestamp=START_MS + later_ms))

    @rule(back=st.integers(0, 10))
    def truncate(self, back: int) -> None:
        offset = max(self.model.end_offset - back, self.store.log_start_offset)
        self.store.truncate_to(offset)
        self.model.truncate_to(offset)
        self.model.end_offset = self.store.log_end_offset

    @rule()
    def flush(self) -> None:
        assert self.store.flush() == self.model.end_offset

    @rule()
    def delete_oldest(self) -> None:
        views = self.store.segments()
        if len(views) > 2:
            assert len(self.store.delete_segments_before(views[1].base_offset)) == 1
            self.model.delete_before(views[1].base_offset)

    @rule()
    def stop_and_start(self) -> None:
        trio.run(self.harness.close)
        self.harness.storage = self.harness.new_storage()
        self.open()

    def crash(self) -> None:
        """Go on with a copy of the files as they are now."""
        self.number += 1
        crashed = self.harness.crash(self.root / str(self.number))
        self.harness.abandon()
        self.harness = crashed

    @rule()
    def crash_without_damage(self) -> None:
        self.crash()
        self.open()

    @rule(nonsense=NONSENSE)
    def crash_with_nonsense(self, nonsense: bytes) -> None:
        self.crash()
        append_to(self.harness.log_files()[-1], nonsense)
        self.open()

    @rule(torn=st.integers(1, 3000))
    def crash_with_a_torn_tail(self, torn: int) -> None:
        self.crash()
        path = self.harness.log_files()[-1]
        self.damage(path, max(path.stat().st_size - torn, 0), None)

    @rule(data=st.data())
    def crash_with_a_flipped_bit(self, data: Any) -> None:
        self.crash()
        paths = [path for path in self.harness.log_files() if path.stat().st_size]
        if not paths:
            self.open()
            return
        path = data.draw(st.sampled_from(paths), label="file")
        start, header = data.draw(st.sampled_from(batches_in(path)), label="batch")
        # What the CRC does not cover is only checked beyond the recovery point. Before it, a wrong offset or
        # length is read as it is; and the upper half of an offset would lead to where indexes cannot follow,
        # which has a test of its own.
        checked = header.base_offset >= self.recovery_point()
        position = start + data.draw(
            st.integers(5 if checked else CRC_COVERS_FROM, header.size - 1), label="byte"
        )
        self.damage(path, position, 1 << data.draw(st.integers(0, 7), label="bit"))

    def recovery_point(self) -> int:
        points = read_checkpoint(self.harness.log_dir / RECOVERY_POINT_CHECKPOINT)
        return max(points.values(), default=0)

    @rule(suffix=st.sampled_from([".index", ".timeindex"]), how=st.sampled_from(["remove", "empty", "grow"]))
    def crash_with_a_damaged_index(self, suffix: str, how: str) -> None:
        self.crash()
        path = self.harness.log_files()[-1].with_suffix(suffix)
        if how == "remove":
            path.unlink()
        elif how == "empty":
            cut(path, 0)
        else:
            append_to(path, b"\x11" * 50)
        self.open()

    def damage(self, path: Path, position: int, flip: int | None) -> None:
        """Tear the file off at `position`, or flip bits of that byte, then recover and compare."""
        base = int(path.stem)
        if flip is None:
            cut(path, position)
        else:
            overwrite(path, position, bytes([path.read_bytes()[position] ^ flip]))
        self.open()
        self.check_survivors(base, position, flip)

    def check_survivors(self, base: int, position: int, flip: int | None) -> None:
        """All before the damage is there, what is behind it may be lost, nothing is invented."""
        batches = self.model.batches
        damaged_at = position + sum(len(batch.data) for batch in batches if batch.base_offset < base)
        intact = 0
        for batch in batches:
            if intact + len(batch.data) > damaged_at:
                break
            intact += len(batch.data)
        found = bytearray(read_all(self.store, self.store.segments()[0].base_offset))
        self.model = rebuilt(bytes(found), self.store)
        if flip is not None and damaged_at < len(found):
            # Below the recovery point, or where the CRC does not reach: the leader epoch, the base offset.
            found[damaged_at] ^= flip
        expected = b"".join(batch.data for batch in batches)
        assert expected.startswith(found), "something was invented"
        assert len(found) >= intact, "something before the damage was lost"

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        store, model = self.store, self.model
        assert store.log_end_offset == model.end_offset
        assert read_all(store, store.segments()[0].base_offset) == b"".join(
            batch.data for batch in model.batches
        )
        for batch in model.batches[-3:]:
            assert read_bytes(store, batch.last_offset, max_bytes=1) == batch.data

    def teardown(self) -> None:
        self.harness.abandon()
        shutil.rmtree(self.root)


def rebuilt(content: bytes, store: PartitionStore) -> ModelLog:
    """A model of what is there now."""
    model = ModelLog()
    model.start_offset = store.log_start_offset
    position = 0
    for header in store.headers(store.segments()[0].base_offset):
        model.append(content[position : position + header.size])
        position += header.size
    model.end_offset = store.log_end_offset
    return model


CrashingLog.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestCrashingLog = CrashingLog.TestCase
