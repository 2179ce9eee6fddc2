"""The soak's own parts, and a short one."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.soak.journal import SyncJournal, durable_sizes, tear
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


def test_sizes_follow_folders_that_are_renamed_while_a_file_is_open(directory: Path, journal: Path) -> None:
    future, current = directory / "t-0.x-future", directory / "t-0"
    future.mkdir()
    fd = written(future / "0.log", 10, 5)
    disk.rename(future, current)
    assert durable_sizes(journal) == {str(current / "0.log"): 10}
    disk.sync_data(fd)
    assert durable_sizes(journal) == {str(current / "0.log"): 15}
    disk.ftruncate(fd, 4)
    assert durable_sizes(journal) == {str(current / "0.log"): 4}
    disk.close(fd)
    disk.unlink(current / "0.log")
    assert durable_sizes(journal) == {}


def test_short_soak_finds_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    Soak(tmp_path, 4, with_java=False, report=lines.append).run(SECONDS)
    assert any("no error in its log" in line for line in lines)
