"""The soak's own parts, and a short one."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.soak.cleaned import BOTH, COMPACTED, TRIMMED
from tests.soak.journal import SyncJournal, durable_sizes, start_over, tear
from tests.soak.run import Soak
from tidelog.kernel import disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = float(os.environ.get("SOAK_SECONDS", "10"))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def directory(tmp_path: Path, journal: Path) -> Iterator[Path]:
    """A log directory whose changes are journaled."""
    directory = tmp_path / "data"
    directory.mkdir()
    with SyncJournal(journal).installed():
        yield directory


def written(path: Path, synced: int, more: int) -> int:
    """Write so many bytes, sync them and write more; return the open descriptor."""
    fd = disk.open_file(path, os.O_RDWR | os.O_CREAT)
    disk.write_all(fd, b"s" * synced, 0)
    disk.sync_data(fd)
    disk.write_all(fd, b"u" * more, synced)
    return fd


def test_tear_takes_only_what_was_not_synced(directory: Path, journal: Path) -> None:
    (directory / "t-0").mkdir()
    log = directory / "t-0" / "0.log"
    disk.close(written(log, 5000, 3000))
    sizes = set[int]()
    for seed in range(40):
        log.write_bytes(b"s" * 5000 + b"u" * 3000)
        lost = tear([directory], journal, random.Random(seed))
        content = log.read_bytes()
        kept = len(content.rstrip(b"\0"))
        assert content.startswith(b"s" * 5000)
        assert 8000 - kept == lost
        assert len(content) in (kept, 8000)
        sizes.add(kept)
    assert len(sizes) > 3


def test_tear_takes_all_of_a_file_that_was_never_synced(directory: Path, journal: Path) -> None:
    journal.touch()
    (directory / "0.log").write_bytes(b"u" * 100)
    assert tear([directory], journal, random.Random(0)) == 100


def durable(path: Path, journal: Path) -> int:
    """Return how many bytes of a file are durable."""
    return durable_sizes(journal).get(path.stat().st_ino, 0)


def test_sizes_follow_folders_that_are_renamed_while_a_file_is_open(directory: Path, journal: Path) -> None:
    future, current = directory / "t-0.x-future", directory / "t-0"
    future.mkdir()
    fd = written(future / "0.log", 10, 5)
    disk.rename(future, current)
    assert durable(current / "0.log", journal) == 10
    disk.sync_data(fd)
    assert durable(current / "0.log", journal) == 15
    disk.ftruncate(fd, 4)
    assert durable(current / "0.log", journal) == 4
    disk.close(fd)


def test_sizes_follow_a_segment_that_replaces_another_one(directory: Path, journal: Path) -> None:
    """What another process wrote is durable when the broker has flushed it; the old size no longer counts."""
    old, new = directory / "0.log", directory / "0.log.cleaned"
    disk.close(written(old, 5000, 0))
    fd = disk.open_file(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    new.write_bytes(b"n" * 1000)
    assert durable(new, journal) == 0
    disk.ftruncate(fd, 1000)
    disk.fsync(fd)
    disk.close(fd)
    swap = directory / "0.log.swap"
    disk.rename(new, swap)
    assert tear([directory], journal, random.Random(0)) == 0
    disk.rename(old, directory / "0.log.deleted")
    disk.rename(swap, old)
    assert durable(old, journal) == 1000
    assert tear([directory], journal, random.Random(0)) == 0


def test_tear_takes_a_swap_segment_that_was_never_synced(directory: Path, journal: Path) -> None:
    """A start takes it for complete."""
    (directory / "0.log.cleaned").write_bytes(b"n" * 1000)
    disk.rename(directory / "0.log.cleaned", directory / "0.log.swap")
    journal.touch()
    assert tear([directory], journal, random.Random(0)) > 0


@pytest.mark.parametrize("way", ["unlink", "remove_tree", "rename", "open_file"])
def test_files_that_are_gone_leave_no_size_for_a_new_one_with_their_inode(
    directory: Path, journal: Path, way: str
) -> None:
    folder = directory / "t-0"
    folder.mkdir()
    log, other = folder / "0.log", folder / "other"
    disk.close(written(log, 10, 0))
    inode = log.stat().st_ino
    match way:
        case "unlink":
            disk.unlink(log)
        case "remove_tree":
            disk.remove_tree(folder)
        case "rename":
            other.touch()
            disk.rename(other, log)
        case _:
            disk.close(disk.open_file(log, os.O_RDWR | os.O_TRUNC))
    assert durable_sizes(journal)[inode] == 0


def test_a_file_that_is_synced_after_its_removal_leaves_no_size(directory: Path, journal: Path) -> None:
    log = directory / "0.log"
    fd = written(log, 10, 5)
    inode = log.stat().st_ino
    disk.unlink(log)
    disk.sync_data(fd)
    disk.close(fd)
    assert durable_sizes(journal)[inode] == 0


def test_start_over_takes_all_that_is_left_for_durable(directory: Path, journal: Path) -> None:
    for name in ("0.log", "9.log.swap"):
        (directory / name).write_bytes(b"u" * 700)
    start_over([directory], journal)
    assert tear([directory], journal, random.Random(0)) == 0


@pytest.mark.long
def test_short_soak_finds_nothing(tmp_path: Path) -> None:
    """The seed: a compacted partition moves, a writer is killed, the power is cut in a replacement."""
    lines: list[str] = []
    soak = Soak(tmp_path, 3394, with_java=False, report=lines.append)
    soak.run(SECONDS)
    assert any("no error in its log" in line for line in lines)
    done = soak.cleaned.cleanups()
    assert done.rewrites.keys() >= {COMPACTED, BOTH}
    assert done.deleted_segments.keys() >= {TRIMMED, BOTH}
