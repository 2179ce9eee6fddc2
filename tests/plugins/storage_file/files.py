"""Looking at, copying and damaging what a storage keeps in files."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from tests.deadlines import DEADLINE_S
from tidelog.kernel.records.batch import BatchHeader, parse_header
from tidelog.kernel.seams.storage import LogDirectoryAdmin, Storage
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage import StorageHarness
from tidelog.plugins.storage_file import plugin as storage_file
from tidelog.plugins.storage_file.storage import FileStorage

PARTITION = "topic-0"
CLEAN_MARK = ".kafka_cleanshutdown"


class IdleTasks(BackgroundTasks):
    """Background work that never gets its turn: the worst that a crash can meet."""

    def start(self, task: object) -> None:
        """Never run it."""

    def in_thread(self, name: str, job: object) -> None:
        """Never run it."""


class LogDirectoryHarness(StorageHarness):
    """The harness of `storage_file`, and the files in its log directory."""

    def __init__(
        self, place: Path, tasks: BackgroundTasks, settings: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(storage_file, place, tasks, dict(settings or {}))
        self.log_dir = place / "data"
        self.partition_dir = self.log_dir / PARTITION

    def abandon(self) -> None:
        """Stop as a crash does: nothing is written any more, and the lock is gone."""
        assert isinstance(self.storage, FileStorage)
        self.storage.abandon()

    def crash(self, to: Path) -> LogDirectoryHarness:
        """What a crash at this moment leaves: a harness, not open yet, on a copy of the files as they are."""
        other = LogDirectoryHarness(to, self.tasks)
        other.topic_ids.update(self.topic_ids)
        shutil.copytree(self.log_dir, other.log_dir, copy_function=_copy_if_there)
        return other

    def log_files(self) -> list[Path]:
        """The `.log` files of the partition, oldest first."""
        return sorted(self.partition_dir.glob("*.log"))

    def names(self) -> set[str]:
        """All names in the partition's directory."""
        return {path.name for path in self.partition_dir.iterdir()}


def log_directories_of(storage: Storage) -> LogDirectoryAdmin:
    """The log directories of a storage that has some."""
    admin = storage.log_directories
    assert admin is not None
    return admin


def evict_page(path: Path, page: int) -> None:
    """Take one page of a file out of the system's memory, if it does so, and leave all others in it."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        # Or else reading a page reads its neighbours, too.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for at in range(0, os.fstat(fd).st_size, mmap.PAGESIZE):
            if at != page * mmap.PAGESIZE:
                os.pread(fd, mmap.PAGESIZE, at)
    finally:
        os.close(fd)


def _copy_if_there(source: str, target: str) -> None:
    """Copy a file, unless a job in a thread has renamed or removed it since its directory was read."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait, in real time whatever the test's clock says, until a job in a thread has made something true."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"it did not become true within {DEADLINE_S:.0f} s"
        await trio.to_thread.run_sync(time.sleep, 0.01)


def batches_in(path: Path) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch of a `.log` file."""
    content = path.read_bytes()
    found: list[tuple[int, BatchHeader]] = []
    position = 0
    while position < len(content):
        header = parse_header(content, position)
        found.append((position, header))
        position += header.size
    return found


def offset_entries(path: Path) -> list[tuple[int, int]]:
    """(relative offset, position) of each entry of an `.index` file."""
    return list(struct.iter_unpack(">ii", path.read_bytes()))


def time_entries(path: Path) -> list[tuple[int, int]]:
    """(timestamp, relative offset) of each entry of a `.timeindex` file."""
    return list(struct.iter_unpack(">qi", path.read_bytes()))


def overwrite(path: Path, position: int, content: bytes) -> None:
    """Change some bytes of a file in place."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def append_to(path: Path, content: bytes) -> None:
    """Add bytes at the end of a file."""
    with path.open("ab") as file:
        file.write(content)


def cut(path: Path, size: int) -> None:
    """Cut a file to `size` bytes."""
    with path.open("r+b") as file:
        file.truncate(size)
