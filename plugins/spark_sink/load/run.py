"""A load from its start to its end: what is committed stays, what is not is written (again)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import attrs

from tidelog.plugins.spark_sink.load.directory import Commit, LoadDirectory
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.plan import Chunk, LoadPlan, chunk_size
from tidelog.plugins.spark_sink.load.request import differences


class ChunkWriter(Protocol):
    """Writes chunks into folders."""

    def write(self, chunk: Chunk, folder: Path, on_progress: Callable[[float], None]) -> int:
        """Write the records of a chunk into a new folder, and return how many there are.

        `on_progress` may be called, also by another thread, with the share of the chunk that is written.
        """
        ...


class LoadObserver(Protocol):
    """Gets the progress of a load; sizes are numbers of offsets."""

    def begin(self, total: int, done: int) -> None:
        """Begin with so many of `total` that are already committed."""
        ...

    def advance(self, done: float) -> None:
        """Show how much is written."""
        ...

    def committed(self, commit: Commit, chunks: int, done: int) -> None:
        """Show that one of `chunks` is committed."""
        ...


@attrs.frozen
class Summary:
    """What a complete load has: of all its starts, but `seconds`, which are of this one."""

    topics: int
    partitions: int
    records: int
    files: int
    size_bytes: int
    seconds: float
    chunks_before: int
    chunks: int


Planner = Callable[[], LoadPlan]
Checker = Callable[[LoadPlan, list[int]], None]


@attrs.frozen
class Load:
    """A load into a directory.

    Attributes:
        directory: where the files go
        identity: the identity of the request
        make_plan: fixes offsets, at the first start
        check_plan: raises if what remains of a plan cannot be read
        check_topics: raises if a topic is not the one of the plan any more
        writer: starts what writes chunks, only if there is something to write
        progress: gets the progress of the load
        overwrite: whether an earlier load of the directory is removed
    """

    directory: LoadDirectory
    identity: Mapping[str, object]
    make_plan: Planner
    check_plan: Checker
    check_topics: Callable[[LoadPlan], None]
    writer: Callable[[LoadPlan], AbstractContextManager[ChunkWriter]]
    progress: LoadObserver
    overwrite: bool = False

    def run(self) -> Summary:
        """Load what is not committed yet.

        Raises:
            LoadFailed: the directory belongs to something else, or records cannot be read or written.
        """
        started_s = time.monotonic()
        stored = self._stored()
        # Before anything is created: a request that cannot be served leaves no trace.
        plan = stored or self.make_plan()
        with self.directory.locked():
            if stored is None:
                # Again under the lock: another start may have stored its plan since this one looked.
                if not self.overwrite and self._stored() is not None:
                    raise LoadFailed(
                        "Another load into this directory has begun meanwhile: start this one again."
                    )
                self.directory.discard()
                self.directory.store(plan)
            commits = self.directory.recover()
            before = len(commits)
            remaining = [number for number in range(len(plan.chunks)) if number not in commits]
            if remaining:
                if stored is not None:
                    self.check_plan(plan, remaining)
                self._write(plan, remaining, commits)
            self.directory.finish()
        return _summary(plan, commits, before, time.monotonic() - started_s)

    def _stored(self) -> LoadPlan | None:
        if self.overwrite and self.directory.has_load:
            return None
        plan = self.directory.plan()
        if plan is None:
            return None
        if changes := differences(plan.request, self.identity):
            raise LoadFailed(
                f"{self.directory.path} has another load: {'; '.join(changes)}. Start that one again to "
                "continue it, load into another directory, or remove what it has written with --overwrite."
            )
        return plan

    def _write(self, plan: LoadPlan, remaining: list[int], commits: dict[int, Commit]) -> None:
        done = plan.size - sum(chunk_size(plan.chunks[number]) for number in remaining)
        self.progress.begin(plan.size, done)
        with self.writer(plan) as writer:
            for number in remaining:
                chunk, folder = plan.chunks[number], self.directory.new_staging(number)
                size, before = chunk_size(chunk), done

                def advance(share: float, before: int = before, size: int = size) -> None:
                    self.progress.advance(before + share * size)

                records = writer.write(chunk, folder, advance)
                # Afterwards: a topic may be created again while it is read.
                self.check_topics(plan)
                commits[number] = self.directory.commit(number, folder, records)
                done += size
                self.progress.committed(commits[number], len(plan.chunks), done)


def _summary(plan: LoadPlan, commits: Mapping[int, Commit], before: int, seconds: float) -> Summary:
    partitions = plan.partitions(range(len(plan.chunks)))
    return Summary(
        topics=len({each.topic for each in partitions}),
        partitions=len(partitions),
        records=sum(each.records for each in commits.values()),
        files=sum(len(each.files) for each in commits.values()),
        size_bytes=sum(each.size_bytes for each in commits.values()),
        seconds=seconds,
        chunks_before=before,
        chunks=len(plan.chunks),
    )
