"""Loads without broker and Spark: a plan over known offsets, and a writer of small files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tidelog.plugins.client import TopicPartition
from tidelog.plugins.spark_sink.load.directory import Commit, LoadDirectory
from tidelog.plugins.spark_sink.load.plan import Chunk, LoadPlan, chunks_of
from tidelog.plugins.spark_sink.load.run import Load, Summary
from tidelog.plugins.spark_sink.ranges import OffsetRange

Record = tuple[str, int, int]
"""Topic, partition and offset."""

RANGES = [
    OffsetRange(TopicPartition("a", 0), 5, 12),
    OffsetRange(TopicPartition("a", 1), 0, 3),
    OffsetRange(TopicPartition("b", 0), 100, 101),
]
RECORDS: list[Record] = [
    (each.partition.topic, each.partition.partition, offset)
    for each in RANGES
    for offset in range(each.start, each.stop)
]
IDENTITY: dict[str, object] = {"TOPIC": ["a", "b"], "--format": "lines"}


def small_plan() -> LoadPlan:
    """Eleven records in three chunks."""
    return LoadPlan(IDENTITY, {"a": None, "b": None}, 2, chunks_of(RANGES, task_records=2, chunk_records=4))


class Lines:
    """Writes a file of lines for each range, in a folder of its topic."""

    def write(self, chunk: Chunk, folder: Path, on_progress: Callable[[float], None]) -> int:
        """Write as Spark does: folders of partitions, checksums, and a mark at the end."""
        for each in chunk:
            place = folder / f"topic={each.partition.topic}"
            place.mkdir(parents=True, exist_ok=True)
            lines = [f"{each.partition.partition} {offset}\n" for offset in range(each.start, each.stop)]
            name = f"part-{each.partition.partition:05d}-{each.start}.txt"
            (place / name).write_text("".join(lines))
            (place / f".{name}.crc").write_bytes(b"checksum")
            on_progress(0.5)
        (folder / "_SUCCESS").touch()
        return sum(each.size for each in chunk)


class KeptProgress:
    """What would be shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.done: list[float] = []

    def begin(self, total: int, done: int) -> None:
        """See Progress."""
        self.begun.append((total, done))

    def advance(self, done: float) -> None:
        """See Progress."""
        self.done.append(done)

    def committed(self, commit: Commit, chunks: int, done: int) -> None:
        """See Progress."""
        self.done.append(done)


def load_of(path: Path, **changes: Any) -> Load:
    """A load into a directory, as a process of its own begins it."""

    @contextmanager
    def writer(plan: LoadPlan) -> Generator[Lines]:
        yield Lines()

    load = Load(
        directory=LoadDirectory(path),
        identity=IDENTITY,
        make_plan=small_plan,
        check_plan=lambda plan, remaining: None,
        check_topics=lambda plan: None,
        writer=writer,
        progress=KeptProgress(),
    )
    return attrs.evolve(load, **changes)


def run(path: Path, **changes: Any) -> Summary:
    """Run such a load."""
    return load_of(path, **changes).run()


def records_in(path: Path) -> Counter[Record]:
    """What a reader of the directory finds: it leaves out names that begin with `.` or `_`."""
    found: Counter[Record] = Counter()
    for file in path.rglob("*"):
        parts = file.relative_to(path).parts
        if file.is_file() and not any(part[0] in "._" for part in parts):
            assert file.suffix == ".txt", file
            for line in file.read_text().splitlines():
                partition, offset = line.split()
                found[parts[0].removeprefix("topic="), int(partition), int(offset)] += 1
    return found
