"""A partition in two log directories without a broker above it: each step of a move is a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from tidelog.kernel import disk
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.kernel.seams.storage.directories import KnownTopic, KnownTopics
from tidelog.kernel.seams.storage.load_progress import LogLoadProgress
from tidelog.kernel.testing.clock import FakeClock
from tidelog.plugins.storage_file.directories.deletion import remove_all
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.placing import Placement
from tidelog.plugins.storage_file.directories.stray_partitions import quarantine_duplicates
from tidelog.plugins.storage_file.disk_errors import means_failed_directory
from tidelog.plugins.storage_file.indexes.formats import IndexFormats
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.moving.replica_moves import resolve_copies
from tidelog.plugins.storage_file.names import future_directory
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.opening import open_partition
from tidelog.plugins.storage_file.services import Services

PARTITION = TopicPartition("t", 0)
CONFIG = TopicConfig(
    {
        "segment.bytes": 700,
        "index.interval.bytes": 150,
        "segment.index.bytes": 1200,
        "file.delete.delay.ms": 0,
    }
)


class TwoDirectories:
    """The directories `a` and `b` of `root`, and `t-0` in one of them; `assigned` is what the metadata says.

    Background jobs wait for `run_jobs`.
    """

    def __init__(self, root: Path, assigned: dict[TopicPartition, bytes] | None = None) -> None:
        self.root = root
        self.assigned = assigned or {}
        self.directories: list[LogDirectory] = []
        self.jobs: list[Callable[[], object]] = []
        self.errors: list[OSError] = []
        self.spec = PartitionSpec(PARTITION, uuid4(), CONFIG)
        self.store: FilePartitionStore
        for name in "ab":
            (root / name).mkdir(parents=True, exist_ok=True)

    def _services(self, directory: LogDirectory) -> Services:
        return Services(
            FakeClock(),
            lambda _, job: self.jobs.append(job),
            lambda paths, _: remove_all(paths),
            lambda: None,
            1 << 20,
            directory.write_recovery_points,
            directory.write_log_starts,
            directory.write_rewritten,
            partial(self._disk_failed, directory),
            IndexFormats({}),
            LogLoadProgress(),
        )

    def _disk_failed(self, directory: LogDirectory, error: OSError) -> None:
        # As a storage decides: a background job may look for files that a move has renamed since.
        if means_failed_directory(error, directory.path):
            self.errors.append(error)

    @property
    def source(self) -> LogDirectory:
        """Where the partition is."""
        return next(each for each in self.directories if PARTITION in each.stores)

    @property
    def target(self) -> LogDirectory:
        """Where it is not."""
        return next(each for each in self.directories if PARTITION not in each.stores)

    def open(self) -> FilePartitionStore:
        """Start on what is there, as a storage does; the partition is created in `a` if there is none."""
        self.directories = [LogDirectory(self.root / name) for name in "ab"]
        for directory in self.directories:
            directory.identify("cluster", 1, 0)
            directory.load()
            directory.services = self._services(directory)
        topics = {"t": KnownTopic(self.spec.topic_id, 1)}
        known = KnownTopics(topics, {}, self.assigned.get)
        resolve_copies(self.directories, known)
        quarantine_duplicates(self.directories, known)
        for directory in self.directories:
            directory.write_forgotten()
        remove_all([path for directory in self.directories for path in directory.leftovers])
        homes = [each for each in self.directories if PARTITION in each.folders]
        assert len(homes) < 2
        home = homes[0] if homes else self.directories[0]
        placement = Placement(self.spec, home, exists=bool(homes))
        if not homes:
            disk.mkdir(placement.path)
        self.store = open_partition(placement, registered=bool(homes))
        home.recall_checkpoints(self.store)
        home.add(self.store)
        return self.store

    def move(self) -> ReplicaMove:
        """A move to the other directory, of which no step is done; a copy that is left there is continued."""
        name = self.target.futures.setdefault(PARTITION, future_directory(PARTITION))
        return ReplicaMove(self.spec, self.store, self.source, self.target, name)

    def decide(self, move: ReplicaMove) -> None:
        """Steps 4's beginning and end."""
        move.begin_swap()
        self.assigned[PARTITION] = move.target.id_bytes

    def give_up(self, move: ReplicaMove) -> None:
        """Undo a move that was not decided."""
        move.end()
        move.target.arrived(PARTITION)
        move.remove_copy()

    def take_all_steps(self, move: ReplicaMove) -> None:
        """Copy until nothing is missing, then the rest."""
        join(move)
        move.make_durable()
        self.decide(move)
        assert move.swap()
        move.remove_source()

    def run_jobs(self) -> None:
        """Do the background jobs of rolls."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job()

    def close(self) -> None:
        """Stop properly."""
        self.run_jobs()
        self.store.close()
        for directory in self.directories:
            directory.mark_clean(1)
            directory.release()

    def abandon(self) -> None:
        """Stop as the end of the process does."""
        self.jobs.clear()
        for directory in self.directories:
            directory.release()

    def names(self, pattern: str) -> Sequence[str]:
        """Paths below the root."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))


def join(move: ReplicaMove) -> None:
    """Steps 1 and 2."""
    move.copy_some()
    while not move.join():
        move.copy_some()
