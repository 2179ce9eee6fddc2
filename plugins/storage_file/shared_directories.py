"""Log directories, as the storage shares them with the metadata store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from tidelog.kernel import disk
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.placing import Placement
from tidelog.plugins.storage_file.names import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_file
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.opening import open_partition


class SharedDirectories:
    """`DataDirectories`: all log directories, and the metadata store's own log."""

    def __init__(self, directories: LogDirectories, identify: Callable[[Path | None], None]) -> None:
        """`identify` does what the method of that name is for; what it needs is the storage's."""
        self._directories = directories
        self._identify = identify

    def containing(self, has_files: Callable[[Path], bool]) -> Sequence[Path]:
        """Blocking: return the directories for which `has_files` returns true."""
        return self._directories.containing(has_files)

    def identify(self, metadata_directory: Path | None) -> None:
        """Blocking: give all directories their ids, and that of the metadata store."""
        self._identify(metadata_directory)

    @property
    def cluster_id(self) -> str:
        """Return the cluster id of the directories."""
        return self._directories.cluster_id

    @property
    def metadata_directory(self) -> LogDirectory | None:
        """Return the directory of the metadata log, None without one."""
        return self._directories.metadata_directory

    @property
    def in_service(self) -> Sequence[LogDirectory]:
        """Return the directories in service."""
        return self._directories.in_service

    @property
    def offline(self) -> Mapping[Path, str]:
        """Return the offline directories, each with the reason."""
        return self._directories.offline

    def open_metadata_log(
        self, partition: TopicPartition, topic_id: UUID, config: TopicConfig
    ) -> FilePartitionStore:
        """Blocking: open the store of the metadata log's partition."""
        spec = PartitionSpec(partition, topic_id, config)
        return open_partition(Placement(spec, self._own_directory(), exists=True), registered=True)

    def empty_metadata_log(self, partition: TopicPartition, start_offset: int) -> None:
        """Blocking: replace the segments of the metadata log by an empty one at `start_offset`."""
        path = self._own_directory().partition_path(partition)
        with disk.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(SEGMENT_SUFFIXES)]
        for name in sorted(names, reverse=True):
            disk.remove_if_there(f"{path}/{name}")
        disk.write_file(f"{path}/{segment_file(start_offset, LOG_SUFFIX)}", b"", durable=True)
        disk.sync_directory(path)

    def _own_directory(self) -> LogDirectory:
        found = self._directories.metadata_directory
        if found is None:
            raise RuntimeError("the metadata store chose no directory")
        return found
