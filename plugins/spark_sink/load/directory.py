"""The directory of a load: its plan, and commits that survive a kill at any moment.

    TARGET/topic=tides/date=2026-01-31/chunk-000012-part-...   data: what is here is committed, and stays
    TARGET/_SUCCESS                                            the load is complete
    TARGET/_tidelog_load/plan.json                             request, and what each chunk reads
                         commits/000012.json                   chunk 12 is committed: its files and records
                         staging/000012-ID/                    what Spark writes
                         lock                                  locked while a load runs
                         discarded.json                        the plan of a load that is being removed

A chunk is committed when its file in `commits` is renamed into place. Until then all that exists of it is a
staging folder, which the next start removes. From then on it is moved file by file out of its staging folder,
which is removed last: while the folder exists the next start repeats the moves, and leaves out what has been
moved. Spark, pyarrow and others ignore folders whose names begin with `_`.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

import attrs

from tidelog.kernel import disk
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.plan import LoadPlan

FOLDER: Final = "_tidelog_load"
SUCCESS: Final = "_SUCCESS"


@attrs.frozen
class Commit:
    """A committed chunk: the path of each file below the staging folder, records, and bytes of the files."""

    chunk: int
    staging: str
    files: tuple[str, ...]
    records: int
    size_bytes: int

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(attrs.asdict(self)).encode()

    @classmethod
    def decode(cls, content: bytes) -> Commit:
        """Return the commit of a file."""
        found: dict[str, Any] = json.loads(content)
        files = tuple(found.pop("files"))
        return cls(files=files, **found)

    def target(self, file: str) -> PurePosixPath:
        """Return where a file goes, below the directory: no other chunk has such a name."""
        path = PurePosixPath(file)
        return path.with_name(f"chunk-{self.chunk:06d}-{path.name}")


class LoadDirectory:
    """A directory that belongs to one load."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._folder = self.path / FOLDER
        self._plan = self._folder / "plan.json"
        self._discarded = self._folder / "discarded.json"
        self._commits = self._folder / "commits"
        self._staging = self._folder / "staging"

    @property
    def spark_log(self) -> Path:
        """Where the output of Spark goes."""
        return self._folder / "spark.log"

    @property
    def has_load(self) -> bool:
        """Whether a load began here, or is being removed."""
        return self._plan.exists() or self._discarded.exists()

    def plan(self) -> LoadPlan | None:
        """Return the plan of a load that began here, None if there is none.

        Raises:
            LoadFailed: it cannot be read, or the directory has other content.
        """
        content = disk.read_file(self._plan) if self._folder.is_dir() else None
        if content is not None:
            return LoadPlan.decode(content, str(self._plan))
        if self.path.exists() and not self._discarded.exists():
            self._refuse_other_content()
        return None

    @contextmanager
    def locked(self) -> Generator[None]:
        """Create the directory if necessary, and keep other loads out of it.

        Raises:
            LoadFailed: another load is at work.
        """
        make_folders(self._folder)
        descriptor = disk.open_file(self._folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LoadFailed(f"Another load into {self.path} is running: wait until it ends.") from None
            yield
        finally:
            disk.close(descriptor)

    def store(self, plan: LoadPlan) -> None:
        """Begin a load, which every later start continues."""
        disk.replace_file(self._plan, plan.encode())

    def recover(self) -> dict[int, Commit]:
        """Finish what a kill interrupted, and return the commits by chunk.

        Raises:
            LoadFailed: a committed file has disappeared before it was moved.
        """
        commits = self._stored_commits()
        for commit in commits.values():
            if (self._staging / commit.staging).exists():
                self._move_files(commit)
        if self._staging.exists():
            disk.remove_tree(self._staging)
        return commits

    def new_staging(self, chunk: int) -> Path:
        """Return a folder that does not exist yet, for the files of a chunk.

        Its name was never used: a Spark that outlives its killed driver may still write into an older one.
        """
        make_folders(self._staging)
        return self._staging / f"{chunk:06d}-{uuid.uuid4().hex}"

    def commit(self, chunk: int, staging: Path, records: int) -> Commit:
        """Commit the files of a chunk, and move them to where readers find them.

        Raises:
            LoadFailed: records were written, but not into files of this folder.
        """
        files = sorted(_data_files(staging)) if records else []
        if records and not files:
            raise LoadFailed(
                f"Spark wrote {records} records and no files into {staging}: is the format one of files?"
            )
        # Before the commit: the files that it names must survive a loss of power.
        _sync_files(staging, files)
        size_bytes = sum(disk.stat(staging / file).st_size for file in files)
        commit = Commit(chunk, staging.name, tuple(files), records, size_bytes)
        make_folders(self._commits)
        disk.replace_file(self._commits / f"{chunk:06d}.json", commit.encode())
        self._move_files(commit)
        return commit

    def finish(self) -> None:
        """Mark the load as complete, for programs that wait for that."""
        if self._staging.exists():
            disk.remove_tree(self._staging)
        disk.write_file(self.path / SUCCESS, b"", durable=True)
        disk.sync_directory(self.path)

    def discard(self) -> None:
        """Remove all that a load has written: from the first step on, it can only be removed."""
        if self._plan.exists():
            disk.rename(self._plan, self._discarded)
            disk.sync_directory(self._folder)
        self._finish_discarding()

    def _finish_discarding(self) -> None:
        if not self._discarded.exists():
            return
        # First: without the files that go next, the load is not complete.
        disk.remove_if_there(self.path / SUCCESS)
        for commit in self._stored_commits().values():
            for file in commit.files:
                disk.remove_if_there(self.path / commit.target(file))
        self._remove_empty_folders()
        for folder in (self._staging, self._commits):
            if folder.exists():
                disk.remove_tree(folder)
        # Last: as long as it exists, the next start repeats all of this.
        disk.remove_if_there(self._discarded)
        disk.sync_directory(self._folder)

    def _remove_empty_folders(self) -> None:
        """Remove the folders that files were partitioned into."""
        for root, _, _ in os.walk(self.path, topdown=False):
            if Path(root) != self.path and self._folder not in (Path(root), *Path(root).parents):
                with suppress(OSError):
                    Path(root).rmdir()

    def _stored_commits(self) -> dict[int, Commit]:
        paths = sorted(self._commits.glob("*.json")) if self._commits.exists() else []
        return {int(path.stem): Commit.decode(disk.read_file(path) or b"") for path in paths}

    def _move_files(self, commit: Commit) -> None:
        """Move what has not been moved yet, and remove the staging folder."""
        staging, changed = self._staging / commit.staging, set[Path]()
        for file in commit.files:
            source, target = staging / file, self.path / commit.target(file)
            if source.exists():
                make_folders(target.parent)
                disk.rename(source, target)
            elif not target.exists():
                raise LoadFailed(
                    f"{target} is committed and has disappeared. Begin again with --overwrite, or load into "
                    "another directory."
                )
            changed.add(target.parent)
        for folder in changed:
            disk.sync_directory(folder)
        # After the new names are durable: without the staging folder no start repeats the moves.
        if staging.exists():
            disk.remove_tree(staging)

    def _refuse_other_content(self) -> None:
        if not self.path.is_dir():
            raise LoadFailed(f"{self.path} is a file: name a directory that is empty or does not exist.")
        others = sorted(each.name for each in self.path.iterdir() if each.name != FOLDER)
        if others:
            raise LoadFailed(
                f"{self.path} has other content, such as {others[0]}: name a directory that is empty or does "
                "not exist."
            )


def make_folders(path: Path) -> None:
    """Create a folder, and those above it that are missing, so that a power cut does not lose them."""
    if not path.exists():
        make_folders(path.parent)
        disk.mkdir(path)
        disk.sync_directory(path.parent)


def _data_files(staging: Path) -> Generator[str]:
    """Yield paths of data files below a folder: other names are Spark's own, such as checksums."""
    for root, folders, files in os.walk(staging):
        folders[:] = [name for name in folders if name[0] not in "._"]
        for name in files:
            if name[0] not in "._":
                yield (Path(root) / name).relative_to(staging).as_posix()


def _sync_files(staging: Path, files: Iterable[str]) -> None:
    """Make files below a staging folder durable, with the folders by which they are found."""
    folders = {staging, staging.parent}
    for file in files:
        _sync_file(staging / file)
        folders |= {staging / parent for parent in PurePosixPath(file).parents}
    for folder in sorted(folders):
        disk.sync_directory(folder)


def _sync_file(path: Path) -> None:
    descriptor = disk.open_file(path, os.O_RDONLY)
    try:
        disk.fsync(descriptor)
    finally:
        disk.close(descriptor)
