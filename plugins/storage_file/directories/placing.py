"""Placement of partitions: the log directory that each is in, or is to be created in."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tidelog.kernel.config import Config
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.kernel.seams.storage.directories import KnownTopics
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory

_log = logging.getLogger(__name__)


class Placement(NamedTuple):
    """A partition to open, and the log directory that it is in (`exists`) or is to be created in.

    With `future` it is a future replica in a directory of that name, which starts at offset `begin_at` when
    new.
    """

    spec: PartitionSpec
    directory: LogDirectory
    exists: bool
    future: str = ""
    begin_at: int = 0

    @property
    def path(self) -> str:
        """The partition's directory."""
        if self.future:
            return f"{self.directory.path}/{self.future}"
        return self.directory.partition_path(self.spec.topic_partition)

    @property
    def recover_from(self) -> int | None:
        """The offset from which the log has to be checked, None after a clean stop."""
        if not self.exists:
            return None
        # A checkpoint has a future replica only once it is complete, so one that is continued is checked
        # whole.
        return 0 if self.future else self.directory.recover_from(self.spec.topic_partition)

    @property
    def log_start(self) -> int:
        """The log start offset of the checkpoint, or that of a new log."""
        if self.exists and not self.future:
            return self.directory.log_start(self.spec.topic_partition)
        return self.begin_at


def configured_paths(config: Config) -> list[Path]:
    """Return the configured log directories, absolute.

    Raises:
        ConfigError: one of them is named twice.
    """
    directories = config[keys.LOG_DIRS]
    if directories and config.is_set(keys.LOG_DIR) and config[keys.LOG_DIR] != directories:
        _log.warning(
            "log.dir=%s is not used, since log.dirs=%s is set: name all directories there",
            ",".join(config[keys.LOG_DIR]), ",".join(directories),
        )  # fmt: skip
    paths = [Path(text).absolute() for text in directories or config[keys.LOG_DIR]]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError(f"log.dirs names a directory twice: {', '.join(map(str, paths))}")
    return paths


class Placing(NamedTuple):
    """Places partitions in `live` directories; `offline` are those that failed, and why.

    `registered` are the topics whose partitions have to be there already.
    """

    live: Sequence[LogDirectory]
    offline: Mapping[Path, str]
    known: KnownTopics
    registered: Collection[UUID]

    def place(
        self, specs: Sequence[PartitionSpec]
    ) -> Generator[None, None, tuple[list[Placement], dict[TopicPartition, str]]]:
        """Return where each partition is, or is to be created; and those that are offline, and why; in steps.

        A new one goes to the directory that has the fewest partitions.

        Raises:
            StorageError: a partition is open already, or in two directories.
        """
        if specs and not self.live:
            raise StorageError(self._why_offline())
        # Counted along here, since `folders` gets the new ones only when they were created.
        counts = {directory: len(directory.folders) for directory in self.live}
        placements: list[Placement] = []
        lost: dict[TopicPartition, str] = {}
        for spec in specs:
            home = self._home_of(spec.topic_partition)
            if home is None and self._is_offline(spec):
                lost[spec.topic_partition] = self._why_offline()
                continue
            found = home or min(self.live, key=counts.__getitem__)
            counts[found] += home is None
            placements.append(Placement(spec, found, exists=home is not None))
            yield
        return placements, lost

    def _home_of(self, partition: TopicPartition) -> LogDirectory | None:
        if any(partition in home.stores for home in self.live):
            raise StorageError(f"{partition} is open already")
        homes = [home for home in self.live if partition in home.folders]
        if len(homes) > 1:
            paths = " and ".join(home.partition_path(partition) for home in homes)
            raise StorageError(f"{partition} is there twice: {paths}; move one of them away")
        return homes[0] if homes else None

    def _is_offline(self, spec: PartitionSpec) -> bool:
        """Return whether a partition that no live directory has may be in one that failed."""
        if not self.offline or spec.topic_id not in self.registered:
            return False
        # One that is assigned to a live directory, which does not have it, is in no failed one either.
        return self.known.assigned(spec.topic_partition) not in [home.id_bytes for home in self.live]

    def _why_offline(self) -> str:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in self.offline.items())
        return f"its log directory is offline ({reasons})"
