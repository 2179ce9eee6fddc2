"""What of each file is durable: written by the broker's process, read when its power is cut.

A file is named by its inode, which it keeps when it or its folder is renamed: a kill between a rename and its
line would leave the sizes under the old name. A rewritten segment becomes durable under its `.cleaned` name;
the process that wrote it has no journal, but the broker flushes the file as well before the first rename.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.full_disk import MARK_VARIABLE, RefusingDisk
from tidelog.kernel import disk
from tidelog.plugins.storage_file.testing.interposing import Interposer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

JOURNAL_VARIABLE: Final = "SOAK_JOURNAL"
_SECTOR_BYTES: Final = 512
_SYNCED, _CUT = "synced", "cut"
_LOGS: Final = ("*.log", "*.log.swap")
"""Records that a start reads: a `.swap` segment is complete, a `.cleaned` one is removed."""


class SyncJournal(Interposer):
    """Writes a line for each sync, truncation and removal; a killed process leaves whole lines.

    What takes bytes away is noted before it happens, what makes them durable afterwards: a kill in between
    leaves a size that is too small, of bytes that were to go or were not acknowledged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Perform the call and note what it makes durable, or what it takes away."""
        if name in ("fsync", "sync_data"):
            # What is written while the device works may or may not be durable: the size before is certain.
            before = os.fstat(arguments[0])
            outcome = perform(*arguments)
            if before.st_nlink:
                self._note(_SYNCED, before.st_ino, before.st_size)
            return outcome
        if name in ("ftruncate", "truncate"):
            inode = _inode(arguments[0])
            if inode is not None:
                self._note(_CUT, inode, arguments[1])
        elif name == "rename":
            self._note_removed(arguments[1], but=_inode(arguments[0]))
        elif name in ("unlink", "remove_tree") or (name == "open_file" and arguments[1] & os.O_TRUNC):
            self._note_removed(arguments[0])
        return perform(*arguments)

    def _note_removed(self, path: str | Path, but: int | None = None) -> None:
        """Note that files have no durable bytes, before their inodes may be given to new ones."""
        for file in _files_at(Path(path)):
            inode = _inode(file)
            if inode is not None and inode != but:
                self._note(_CUT, inode, 0)

    def _note(self, what: str, inode: int, size: int) -> None:
        os.write(self._fd, f"{what}\t{inode}\t{size}\n".encode())


def _files_at(path: Path) -> Iterator[Path]:
    """Yield a file, or all files of a folder."""
    if path.is_dir():
        yield from (each for each in path.rglob("*") if not each.is_dir())
    else:
        yield path


def _inode(file: str | Path | int) -> int | None:
    """Return the inode of a path or an open file, None when there is no such path."""
    try:
        return disk.stat(file).st_ino
    except FileNotFoundError:
        return None


def durable_sizes(journal: Path) -> dict[int, int]:
    """Return the size up to which each file that the journal names is durable, by inode."""
    sizes: dict[int, int] = {}
    for line in journal.read_text(encoding="utf-8").splitlines():
        what, inode, size = line.split("\t")
        durable = int(size) if what == _SYNCED else min(sizes.get(int(inode), 0), int(size))
        sizes[int(inode)] = durable
    return sizes


def _logs(directories: list[Path]) -> Iterator[Path]:
    for directory in directories:
        for pattern in _LOGS:
            yield from sorted(directory.rglob(pattern))


def start_over(directories: list[Path], journal: Path) -> None:
    """Write a journal in which all that the logs hold is durable: it is what a device without power has."""
    lines = [
        f"{_SYNCED}\t{status.st_ino}\t{status.st_size}\n"
        for status in (log.stat() for log in _logs(directories))
    ]
    journal.write_text("".join(lines), encoding="utf-8")


def tear(directories: list[Path], journal: Path, choose: random.Random) -> int:
    """Take from each log what a device without power may not have written; return how many bytes.

    Data above the durable size is cut at any sector, or turned into zeros from there on. Names are left as
    they are: what becomes of those is for tests/crash, which knows every operation.
    """
    sizes = durable_sizes(journal)
    return sum(
        _tear_one(log, sizes.get(log.stat().st_ino, 0), choose)
        for log in _logs(directories)
        if not log.parent.name.startswith("__cluster_metadata")
    )


def _tear_one(log: Path, durable: int, choose: random.Random) -> int:
    size = log.stat().st_size
    if size <= durable:
        return 0
    kept = min(size, durable + choose.randrange(size - durable + 1) // _SECTOR_BYTES * _SECTOR_BYTES)
    os.truncate(log, kept)
    if choose.random() < 0.5:
        os.truncate(log, size)
    return size - kept


def main() -> None:
    """Run `tidelog` with this command line's arguments, and journal what becomes durable."""
    from tidelog.kernel.cli import main as tidelog

    full = RefusingDisk(Path(os.environ[MARK_VARIABLE]))
    with SyncJournal(Path(os.environ[JOURNAL_VARIABLE])).installed(), full.installed():
        tidelog(sys.argv[1:])


if __name__ == "__main__":
    main()
