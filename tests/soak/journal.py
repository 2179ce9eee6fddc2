"""What of each file is durable: written by the broker's process, read by whoever cuts its power."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.storage_file.testing.interposing import Interposer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

JOURNAL_VARIABLE: Final = "SOAK_JOURNAL"
_SECTOR_BYTES: Final = 512
_SYNCED, _RENAMED, _CUT, _GONE = "synced", "renamed", "cut", "gone"


class SyncJournal(Interposer):
    """Writes a line for each sync, rename, truncation and removal; a killed process leaves it whole."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Perform the call and note what it makes durable, or what it takes away."""
        if name in ("fsync", "sync_data"):
            # What is written while the device works may or may not be durable: the size before is certain.
            size = os.fstat(arguments[0]).st_size
            outcome = perform(*arguments)
            self._note(_SYNCED, _path_now(arguments[0]), str(size))
            return outcome
        outcome = perform(*arguments)
        if name == "rename":
            self._note(_RENAMED, str(arguments[0]), str(arguments[1]))
        elif name == "ftruncate":
            self._note(_CUT, _path_now(arguments[0]), str(arguments[1]))
        elif name == "truncate":
            self._note(_CUT, str(arguments[0]), str(arguments[1]))
        elif name in ("unlink", "remove_tree"):
            self._note(_GONE, str(arguments[0]))
        return outcome

    def _note(self, *words: str) -> None:
        os.write(self._fd, ("\t".join(words) + "\n").encode())


def _path_now(fd: int) -> str:
    """Return the path of an open file, whose folder may have been renamed since it was opened."""
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def durable_sizes(journal: Path) -> dict[str, int]:
    """Return the size up to which each file that the journal names is durable, by path."""
    sizes: dict[str, int] = {}
    for line in journal.read_text(encoding="utf-8").splitlines():
        what, path, *rest = line.split("\t")
        if what == _SYNCED:
            sizes[path] = int(rest[0])
        elif what == _CUT:
            sizes[path] = min(sizes.get(path, 0), int(rest[0]))
        elif what == _RENAMED:
            _rename(sizes, path, rest[0])
        else:
            sizes.pop(path, None)
    return sizes


def _rename(sizes: dict[str, int], old: str, new: str) -> None:
    """Let the sizes of a file, or of all files of a folder, follow a rename."""
    for path in [each for each in sizes if each == old or each.startswith(f"{old}/")]:
        sizes[new + path[len(old) :]] = sizes.pop(path)


def tear(directories: list[Path], journal: Path, choose: random.Random) -> int:
    """Take from each log what a device without power may not have written; return how many bytes.

    Data above the durable size is cut at any sector, or turned into zeros from there on. Names are left as
    they are: what becomes of those is for tests/crash, which knows every operation.
    """
    sizes, lost = durable_sizes(journal), 0
    for directory in directories:
        for log in sorted(directory.rglob("*.log")):
            if not log.parent.name.startswith("__cluster_metadata"):
                lost += _tear_one(log, sizes.get(str(log), 0), choose)
    return lost


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

    with SyncJournal(Path(os.environ[JOURNAL_VARIABLE])).installed():
        tidelog(sys.argv[1:])


if __name__ == "__main__":
    main()
