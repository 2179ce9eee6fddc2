"""Segments that take the place of others: a crash at any step leaves all of the old or all of the new."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.conftest import only_cause
from tests.crash.interposers import Unsynced
from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import append, append_many, read_all
from tidelog.plugins.storage_file.testing import (
    CHANGING,
    DataFate,
    DyingProcess,
    FailingDisk,
    NameFate,
    PowerCut,
    ProcessDied,
    Recorder,
)
from tidelog.plugins.storage_file.testing.interposing import Interposer

pytestmark = pytest.mark.in_memory

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100, "file_delete_delay_ms": 600_000}
MARKS = (".cleaned", ".swap", ".deleted")
ENOSPC = 28


@attrs.frozen
class Change:
    """A change of a log of 20 batches, by the numbers of those that are left."""

    name: str
    drafts: Sequence[tuple[int, Sequence[int]]]
    replaced: int
    left: Sequence[int]

    def apply(self, store: PartitionStore, batches: Sequence[bytes]) -> None:
        """Do it; batches of `left` that are in no draft belong to segments that stay."""
        drafts = [store.draft_segment(base) for base, _ in self.drafts]
        for draft, (_, numbers) in zip(drafts, self.drafts, strict=True):
            for number in numbers:
                header = parse_header(batches[number])
                draft.append(batches[number], header.base_offset, header.last_offset, header.max_timestamp)
        bases = [view.base_offset for view in store.segments()[:-1]]
        store.replace_segments(
            drafts, bases[-self.replaced :] if self.name == "end" else bases[: self.replaced]
        )


# 20 batches with an offset each, two in a segment: 0, 2, ... 18, of which the last is active.
CHANGES = [
    Change("merge", [(0, [0, 3, 5])], 3, [0, 3, 5, *range(6, 20)]),
    Change("several", [(0, [1]), (3, [3, 6]), (9, [9])], 5, [1, 3, 6, 9, *range(10, 20)]),
    Change("behind the new end", [(0, [0, 1])], 4, [0, 1, *range(8, 20)]),
    Change("nothing left", [(0, [])], 9, [18, 19]),
    Change("end", [(14, [])], 2, [*range(14), 18, 19]),
]


each_change = pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            change, id=change.name, marks=() if change.name in ("merge", "end") else pytest.mark.long
        )
        for change in CHANGES
    ],
)


async def prepared(
    place: Path, tasks: BackgroundTasks
) -> tuple[LogDirectoryHarness, PartitionStore, list[bytes]]:
    """A log of ten segments, all durable, so that nothing of it is checked after a crash."""
    harness = LogDirectoryHarness(place, tasks)
    await harness.open()
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 20, 100)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    assert [view.base_offset for view in store.segments()] == list(range(0, 20, 2))
    return harness, store, batches


async def content_after_a_crash(crashed: LogDirectoryHarness, *, thoroughly: bool = True) -> bytes:
    """What a start finds, and nothing is left over; `thoroughly`: a second start finds the same."""
    with Unsynced().installed():
        await crashed.open()
        store = await crashed.open_store(**SETTINGS)
        content = read_all(store)
        assert [header.base_offset for header in store.headers(0)] == [
            header.base_offset for header in map(parse_header, split(content))
        ]
        assert not [name for name in crashed.names() if name.endswith(MARKS)]
        if not thoroughly:
            crashed.abandon()
            return content
        await crashed.reopen()
        again = await crashed.open_store(**SETTINGS)
        assert read_all(again) == content
        append(again)
        assert again.log_end_offset == 21
        await crashed.close()
    return content


def split(content: bytes) -> list[bytes]:
    batches: list[bytes] = []
    while content:
        size = parse_header(content).size
        batches.append(content[:size])
        content = content[size:]
    return batches


def died_at(
    harness: LogDirectoryHarness, store: PartitionStore, batches: Sequence[bytes], change: Change, step: int
) -> bool:
    """Change the log; whether the process died before the call of that number."""
    dying = DyingProcess(step, CHANGING)
    with dying.installed(), Unsynced().installed(), contextlib.suppress(ProcessDied):
        change.apply(store, batches)
    harness.abandon()
    return dying.died


@each_change
async def test_replace_segments_with_a_crash_at_every_step(
    tmp_path: Path, tasks: BackgroundTasks, change: Change
) -> None:
    template, _, batches = await prepared(tmp_path / "template", tasks)
    old, new = b"".join(batches), b"".join(batches[number] for number in change.left)
    outcomes: list[bytes] = []
    died = True
    while died:
        copy = template.crash(tmp_path / "copy")
        await copy.open()
        died = died_at(copy, await copy.open_store(**SETTINGS), batches, change, len(outcomes))
        crashed, thoroughly = copy.crash(tmp_path / "crashed"), len(outcomes) % 7 == 0
        outcomes.append(await content_after_a_crash(crashed, thoroughly=thoroughly))
        await tasks.wait_for_jobs()
        shutil.rmtree(tmp_path / "copy")
        shutil.rmtree(tmp_path / "crashed")
    decided = outcomes.index(new)
    assert 0 < decided < len(outcomes) - 1
    assert outcomes == [old] * decided + [new] * (len(outcomes) - decided)
    await template.close()


@pytest.mark.long
async def test_resolve_with_a_second_crash_at_every_step(tmp_path: Path, tasks: BackgroundTasks) -> None:
    change = CHANGES[1]
    template, _, batches = await prepared(tmp_path / "template", tasks)
    outcomes = b"".join(batches), b"".join(batches[number] for number in change.left)
    step, died = 10, True
    while died:
        copy = template.crash(tmp_path / f"{step}")
        await copy.open()
        died = died_at(copy, await copy.open_store(**SETTINGS), batches, change, step)
        expected = await content_after_a_crash(copy.crash(tmp_path / f"{step}.once"))
        assert expected in outcomes
        # What the last append has left to a thread must not be what dies.
        await tasks.wait_for_jobs()
        for second in range(step % 3, 40, 3):
            again = copy.crash(tmp_path / f"{step}.{second}")
            with DyingProcess(second, CHANGING).installed(), Unsynced().installed():
                await open_and_die(again)
            again.abandon()
            last = again.crash(tmp_path / f"{step}.{second}.last")
            assert await content_after_a_crash(last, thoroughly=False) == expected
        step += 18
    await template.close()


async def open_and_die(harness: LogDirectoryHarness) -> None:
    try:
        await harness.open()
        await harness.open_store(**SETTINGS)
    except (BaseExceptionGroup, ProcessDied) as error:
        if not isinstance(only_cause(error), ProcessDied):
            raise


@each_change
async def test_replace_segments_with_a_power_cut_at_every_step(
    tmp_path: Path, tasks: BackgroundTasks, change: Change
) -> None:
    harness, store, batches = await prepared(tmp_path / "recorded", tasks)
    recorder = Recorder(harness.log_dir)
    with recorder.installed():
        change.apply(store, batches)
    outcomes = b"".join(batches), b"".join(batches[number] for number in change.left)
    device = recorder.start
    for done, operation in enumerate([None, *recorder.operations]):
        if operation is not None:
            device.apply(operation)
        # Of 3 and 7 fates each pair comes up.
        data, names = list(DataFate)[done % len(DataFate)], list(NameFate)[done % len(NameFate)]
        crashed = LogDirectoryHarness(tmp_path / "crashed", tasks)
        crashed.topic_ids.update(harness.topic_ids)
        PowerCut(data, names, done).leave(device, crashed.log_dir)
        found = await content_after_a_crash(crashed, thoroughly=done % 7 == 0)
        assert found in outcomes, (done, operation, data, names)
        await tasks.wait_for_jobs()
        shutil.rmtree(tmp_path / "crashed")
    await harness.close()


async def test_replace_segments_on_a_full_disk_leaves_the_old_segments(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness, store, batches = await prepared(tmp_path, tasks)
    change, old = CHANGES[1], b"".join(batches)
    for allowed in range(0, 16, 3):
        failing = FailingDisk()
        failing.refuse(
            ENOSPC, {"pwrite", "fsync", "open_file"}, paths=lambda path: ".cleaned" in path, after=allowed
        )
        with failing.installed(), pytest.raises(OSError, match="space"):
            change.apply(store, batches)
        assert read_all(store) == old
    change.apply(store, batches)
    assert read_all(store) == b"".join(batches[number] for number in change.left)
    assert append(store)
    await harness.close()


async def test_replace_segments_with_a_failure_after_the_decision_is_finished_at_the_next_start(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness, store, batches = await prepared(tmp_path, tasks)
    change = CHANGES[1]
    failing = FailingDisk()
    failing.refuse(5, {"rename"}, paths=lambda path: path.endswith(".log.swap"))
    with failing.installed(), pytest.raises(OSError, match="error"):
        change.apply(store, batches)
    new = b"".join(batches[number] for number in change.left)
    assert read_all(store) == new, "what was decided is what readers see"
    with pytest.raises(OSError, match="earlier"):
        append(store)
    assert await content_after_a_crash(harness.crash(tmp_path / "crashed")) == new
    harness.abandon()


class Calls(Interposer):
    """Notes renames by their new suffix, and syncs of a directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = str(directory)
        self.made: list[str] = []

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Note and perform a call."""
        if name == "rename":
            self.made.append(Path(arguments[1]).suffix)
        elif name == "fsync" and self.path_of(name, arguments) == self._directory:
            self.made.append("sync")
        return perform(*arguments)


async def test_replace_segments_syncs_the_directory_when_it_is_decided_before_old_files_go(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness, store, batches = await prepared(tmp_path, tasks)
    calls = Calls(harness.partition_dir)
    with calls.installed():
        CHANGES[0].apply(store, batches)
    decided = len(calls.made) - calls.made[::-1].index(".swap")
    assert "sync" in calls.made[decided : calls.made.index(".deleted")]
    await harness.close()


async def test_replace_segments_keeps_the_old_files_for_their_delay(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness, store, batches = await prepared(tmp_path, tasks)
    CHANGES[0].apply(store, batches)
    deleted = [name for name in harness.names() if name.endswith(".log.deleted")]
    assert sorted(deleted) == [f"{base:020d}.log.deleted" for base in (0, 2, 4)]
    await harness.close()


async def test_draft_segment_shares_no_file_with_an_older_draft(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness, store, _ = await prepared(tmp_path, tasks)
    log = harness.partition_dir / f"{0:020d}.log.cleaned"
    older = store.draft_segment(0)
    inode = log.stat().st_ino
    newer = store.draft_segment(0)
    assert log.stat().st_ino != inode
    older.discard()
    assert log.exists()
    newer.discard()
    assert not log.exists()
    await harness.close()
