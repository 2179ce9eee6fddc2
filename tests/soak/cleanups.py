"""What retention and compaction did: counted in the broker's log, and measured in its directories."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_REWRITTEN: Final = re.compile(
    r" (?P<topic>\S+)-\d+: cleanup policy compact rewrote the log up to .*: "
    r"(?P<kept_bytes>\d+) of (?P<bytes>\d+) bytes and (?P<kept>\d+) of (?P<records>\d+) records are left"
)
_GIVEN_UP: Final = re.compile(r" (?P<topic>\S+)-\d+: rewriting is given up for now: ")
_DELETED: Final = re.compile(r" (?P<topic>\S+)-\d+: cleanup policy delete deleted (?P<segments>\d+) segment")
_INTERRUPTED: Final = re.compile(r": a replacement of segments was interrupted and is (undone|finished)")
_BLOCK_BYTES: Final = 512
_LOOK_S: Final = 0.0005


@attrs.define
class Cleanups:
    """Counts of the lines of a broker's log, by topic; a start finds `interrupted` replacements."""

    rewrites: Counter[str] = attrs.field(factory=Counter[str])
    given_up: Counter[str] = attrs.field(factory=Counter[str])
    deleted_segments: Counter[str] = attrs.field(factory=Counter[str])
    removed_records: Counter[str] = attrs.field(factory=Counter[str])
    interrupted: int = 0

    @classmethod
    def of(cls, lines: Iterable[str]) -> Cleanups:
        """Count the lines of a log."""
        found = cls()
        for line in lines:
            found.take(line)
        return found

    def take(self, line: str) -> None:
        """Count a line, if it is about a cleanup."""
        if match := _REWRITTEN.search(line):
            self.rewrites[match["topic"]] += 1
            self.removed_records[match["topic"]] += int(match["records"]) - int(match["kept"])
        elif match := _DELETED.search(line):
            self.deleted_segments[match["topic"]] += int(match["segments"])
        elif match := _GIVEN_UP.search(line):
            self.given_up[match["topic"]] += 1
        elif _INTERRUPTED.search(line):
            self.interrupted += 1

    def __str__(self) -> str:
        """All of it in a line."""
        return (
            f"{self.rewrites.total()} compactions {dict(self.rewrites)}, {self.given_up.total()} given up, "
            f"{self.removed_records.total()} records removed, {self.interrupted} interrupted replacements, "
            f"{self.deleted_segments.total()} segments deleted {dict(self.deleted_segments)}"
        )


def wait_for_file(directories: Iterable[Path], topics: Iterable[str], mark: str, patience_s: float) -> bool:
    """Wait until a partition has a file that ends so, for a millisecond perhaps; return whether it had."""
    folders = [folder for topic in topics for folder in _folders(directories, topic)]
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if any(name.endswith(mark) for folder in folders for name in _names(folder)):
            return True
        time.sleep(_LOOK_S)
    return False


def occupied_bytes(directories: Iterable[Path], topic: str) -> int:
    """Return what all files of a topic's partitions occupy: of moves, rewrites and deletions too."""
    return sum(each.occupied for each in _files(directories, topic))


def log_bytes(directories: Iterable[Path], topic: str) -> dict[int, int]:
    """Return the size of each partition's segments, without files that wait for their removal."""
    sizes: Counter[int] = Counter()
    for file in _files(directories, topic):
        if file.partition is not None and file.name.endswith(".log"):
            sizes[file.partition] += file.size
    return sizes


def count_files(directories: Iterable[Path], topic: str, suffix: str) -> dict[int, int]:
    """Return how many files with such names each partition has."""
    return Counter(
        file.partition
        for file in _files(directories, topic)
        if file.partition is not None and file.name.endswith(suffix)
    )


@attrs.frozen
class _File:
    """`partition` is None in the directory of a future replica or of a deleted partition."""

    partition: int | None
    name: str
    size: int
    occupied: int


def _files(directories: Iterable[Path], topic: str) -> Iterator[_File]:
    for folder, partition in _folders(directories, topic).items():
        for name in _names(folder):
            try:
                status = (folder / name).stat()
            except FileNotFoundError:
                continue
            yield _File(partition, name, status.st_size, status.st_blocks * _BLOCK_BYTES)


def _folders(directories: Iterable[Path], topic: str) -> dict[Path, int | None]:
    """Return the directories of a topic's partitions; None for those that are not in use."""
    folder_name = re.compile(rf"{re.escape(topic)}-(\d+)(\..*)?")
    return {
        folder: None if match[2] else int(match[1])
        for directory in directories
        for folder in directory.iterdir()
        if (match := folder_name.fullmatch(folder.name)) is not None
    }


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:  # renamed or removed meanwhile
        return []
