"""Filters that the worker process of a test imports by name."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidelog.kernel.records.block import RecordBlock


@attrs.define
class Filter:
    """Keeps everything; others are derived from it."""

    surveyed: int = 0

    def survey(self, block: RecordBlock) -> int | None:
        """Count."""
        self.surveyed += len(block)
        return None

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Keep all."""
        return [True] * len(block)

    def counts(self) -> Mapping[str, float]:
        """What was surveyed."""
        return {"surveyed": self.surveyed}


@attrs.define
class EvenOffsets(Filter):
    """Keeps records with even offsets."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [offset % 2 == 0 for offset in block.offset.tolist()]


@attrs.define
class CountThreads(Filter):
    """Keeps everything, and counts the threads of its process meanwhile."""

    threads: int = 0

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        self.threads = max(self.threads, len(os.listdir("/proc/self/task")))  # noqa: PTH208 - to be counted
        return super().keep(block)

    def counts(self) -> Mapping[str, float]:
        """The most that there were."""
        return {"threads": self.threads}


@attrs.define
class OneOffsetAtATime(EvenOffsets):
    """Has room for so many records."""

    room: int = 3

    def survey(self, block: RecordBlock) -> int | None:
        offsets = block.offset.tolist()
        fits = offsets[: self.room]
        self.room -= len(fits)
        return offsets[len(fits)] if len(fits) < len(offsets) else None


@attrs.define
class Broken(Filter):
    """Raises an error of its own."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        raise ZeroDivisionError(f"{len(block)} records")


@attrs.define
class Refused(EvenOffsets):
    """Meets a disk that refuses as long as there is a file of that path."""

    path: str = ""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        if Path(self.path).exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        return super().keep(block)


@attrs.define
class TooShort(Filter):
    """Answers for fewer records than it was asked for."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [True] * (len(block) - 1)


@attrs.define
class Deadly(Filter):
    """Ends its process in the middle of the work."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError(block)


@attrs.define
class DropNewest(Filter):
    """Keeps the first record of each key."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        first: dict[bytes | None, int] = {}
        for record in block.records():
            first.setdefault(record.key, record.offset)
        return [first[record.key] == record.offset for record in block.records()]


@attrs.define
class DropTheLast(Filter):
    """Keeps several records of each key, but not the newest one."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        newest = {record.key: record.offset for record in block.records()}
        return [newest[record.key] != record.offset for record in block.records()]


@attrs.define
class ForgetTombstones(Filter):
    """Drops tombstones at once."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [record.value is not None for record in block.records()]
