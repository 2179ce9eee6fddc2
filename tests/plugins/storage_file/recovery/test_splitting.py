"""A segment with offsets too far from its base offset is split when it is loaded."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from tests.conftest import only_cause
from tests.crash.interposers import Unsynced
from tests.plugins.storage_file.files import CLEAN_MARK, LogDirectoryHarness, offset_entries, overwrite
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append, read_all, read_bytes
from tidelog.plugins.storage_file.testing import CHANGING, DyingProcess, ProcessDied

pytestmark = pytest.mark.in_memory

FAR = 2**31
OFFSETS = [0, 5, FAR - 2, FAR - 1, FAR, FAR + 7, 3 * FAR, 3 * FAR + 1]
PIECES = [0, FAR, 3 * FAR]
SETTINGS = {"index_interval_bytes": 50}


def batch_at(offset: int) -> bytes:
    return bytes(make_batch([b"v" * 100], offset, timestamps=START_MS + offset % 1000))


CONTENT = b"".join(map(batch_at, OFFSETS))


async def overflowed(place: Path, tasks: BackgroundTasks, *, clean: bool) -> LogDirectoryHarness:
    """A log of one segment, as a broker wrote it that knew no limit; not open."""
    harness = LogDirectoryHarness(place, tasks)
    await harness.open()
    await harness.open_store(**SETTINGS)
    await harness.close()
    log = harness.partition_dir / f"{0:020d}.log"
    log.write_bytes(CONTENT)
    if clean:
        size = len(batch_at(0))
        log.with_suffix(".index").write_bytes(struct.pack(">ii", FAR - 1, 3 * size))
        log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", START_MS + FAR % 1000 - 1, FAR - 1))
    else:
        (harness.log_dir / CLEAN_MARK).unlink()
    harness.storage = harness.new_storage()
    return harness


@pytest.mark.parametrize("clean", [True, False])
async def test_split_segment_where_offsets_do_not_fit(
    tmp_path: Path, tasks: BackgroundTasks, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    harness = await overflowed(tmp_path, tasks, clean=clean)
    await harness.open()
    store = await harness.open_store(**SETTINGS)
    assert f"it was split at {FAR}, {3 * FAR}" in caplog.text
    caplog.clear()
    for again in (False, True):
        if again:
            await harness.reopen()
            store = await harness.open_store(**SETTINGS)
        assert [view.base_offset for view in store.segments()] == PIECES
        assert read_all(store) == CONTENT
        for offset in OFFSETS:
            assert read_bytes(store, offset, 1) == batch_at(offset)
    assert not any(word in caplog.text for word in ("was split", "rebuilt", ": cut"))
    append(store)
    assert store.log_end_offset == OFFSETS[-1] + 2
    await harness.close()
    assert [relative for relative, _ in offset_entries(harness.partition_dir / f"{0:020d}.index")] == [
        5,
        FAR - 2,
        FAR - 1,
    ]


async def test_split_segment_leaves_a_segment_in_front_of_a_gap(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    store = await harness.open_store(**SETTINGS)
    content = append(store) + append(store, gap=3 * FAR)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    assert read_all(store) == content
    assert [view.base_offset for view in store.segments()] == [0, 3 * FAR + 1]
    assert "was split" not in caplog.text


async def test_log_loader_checks_no_batch_of_a_segment_up_to_the_last_offset_that_fits(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    append(store, 100)
    append(store, gap=FAR - 2)
    append(store, gap=FAR)
    assert [view.base_offset for view in store.segments()] == [0, 2 * FAR]
    await harness.close()
    # A check would cut it off, and everything behind it.
    overwrite(harness.log_files()[0], 100, b"\xaa\xaa")
    await harness.open_again()
    store = await harness.open_store(**SETTINGS)
    assert [view.next_offset for view in store.segments()] == [2 * FAR, 2 * FAR + 1]


@pytest.mark.parametrize("clean", [True, False])
async def test_split_segment_of_far_offsets_only_is_replaced_by_one_that_begins_there(
    tmp_path: Path, tasks: BackgroundTasks, clean: bool
) -> None:
    harness = await overflowed(tmp_path, tasks, clean=clean)
    near, far = batch_at(0), batch_at(3 * FAR)
    for base, content in ((0, near), (1, far)):
        log = harness.partition_dir / f"{base:020d}.log"
        log.write_bytes(content)
        log.with_suffix(".index").write_bytes(b"")
        log.with_suffix(".timeindex").write_bytes(b"")
    for again in (False, True):
        if again:
            await harness.reopen()
        else:
            await harness.open()
        store = await harness.open_store(**SETTINGS)
        assert [view.base_offset for view in store.segments()] == [0, 3 * FAR]
        assert read_all(store) == near + far
        assert store.log_end_offset == 3 * FAR + 1
    await harness.close()


async def test_split_segment_with_a_crash_at_every_step(tmp_path: Path, tasks: BackgroundTasks) -> None:
    template = await overflowed(tmp_path / "template", tasks, clean=True)
    step, died = 0, True
    while died:
        harness = template.crash(tmp_path / "begun")
        with Unsynced().installed():
            await harness.open()
            dying = DyingProcess(step, CHANGING)
            with dying.installed():
                try:
                    await harness.open_store(**SETTINGS)
                except (BaseExceptionGroup, ProcessDied) as error:
                    if not isinstance(only_cause(error), ProcessDied):
                        raise
            harness.abandon()
            crashed = harness.crash(tmp_path / "crashed")
            await crashed.open()
            store = await crashed.open_store(**SETTINGS)
            assert read_all(store) == CONTENT
            assert [view.base_offset for view in store.segments()] == PIECES
            marks = (".cleaned", ".swap", ".deleted")
            assert not [name for name in crashed.names() if name.endswith(marks)]
            crashed.abandon()
        shutil.rmtree(tmp_path / "begun")
        shutil.rmtree(tmp_path / "crashed")
        step, died = step + 1, dying.died
    assert step > 20
