"""Where among a broker's log directories the metadata log lies, and how it is opened there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.storage import PartitionSpec, StorageContext, TopicPartition, TopicRecord
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.metadata_kraft import keys
from tidelog.plugins.metadata_kraft.adopted_topics import AdoptedTopics
from tidelog.plugins.metadata_kraft.adoption import adopted_records
from tidelog.plugins.metadata_kraft.housekeeping import SnapshotLimits
from tidelog.plugins.metadata_kraft.log import METADATA_PARTITION, METADATA_TOPIC_ID
from tidelog.plugins.metadata_kraft.opening import (
    METADATA_DIRECTORY,
    MetadataPlace,
    OpenedMetadata,
    has_metadata_log,
    open_metadata,
)
from tidelog.plugins.metadata_kraft.store import KraftMetadata
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.opening import Placement, open_partition


class MetadataHome:
    """The log directory `directory` that has, or gets, the metadata log; `partitions_in` are `log.dirs`.

    `directory` is one of `partitions_in` unless `metadata.log.dir` names another.
    """

    def __init__(
        self, context: StorageContext, partitions_in: Sequence[LogDirectory], offline: Mapping[Path, str]
    ) -> None:
        """Blocking: find the directory; one of its own is locked. `offline` cannot be looked into, and why.

        Raises:
            ConfigError: there are several metadata logs, or the directory cannot be used.
        """
        self._context = context
        self._partitions_in = partitions_in
        self._offline = offline
        having = [directory for directory in partitions_in if has_metadata_log(directory.path)]
        wanted = context.config[keys.METADATA_LOG_DIR]
        if wanted is None:
            if offline and not having:
                _refuse_without(offline)
            # Kafka's rule is the first; one that lies elsewhere was made with another order of log.dirs.
            self.directory, self.is_apart = (having or partitions_in)[0], False
        else:
            path = Path(wanted).absolute().resolve()
            known = [directory for directory in partitions_in if directory.path.resolve() == path]
            self.is_apart = not known
            self.directory = known[0] if known else LogDirectory(path)
        others = [directory for directory in having if directory is not self.directory]
        if others:
            if self.is_apart:
                self.directory.release()
            _refuse_several([*others, self.directory])

    def open(self, cluster_id: str) -> KraftMetadata:
        """Blocking: open, or format, the metadata log; every directory has to be identified.

        Raises:
            ConfigError: it cannot be taken over.
            OSError: the disk refused.
        """
        context = self._context
        place = MetadataPlace(
            self.directory.path,
            context.node_id,
            self.directory.id_bytes,
            cluster_id,
            tuple(directory.id_bytes for directory in self._partitions_in),
            context.config.keys.dynamic_names(),
        )
        adopted = AdoptedTopics(place.root)
        opened = open_metadata(place, self._open_store, context.now_ms)
        limits = SnapshotLimits.of(context.config)
        metadata = KraftMetadata(place, opened, limits, adopted, self._directory_of, context.now_ms)
        metadata.to_adopt = self._to_adopt(opened)
        return metadata

    def _open_store(self) -> FilePartitionStore:
        config = self._context.config
        topic_config = TopicConfig(
            {
                "segment.bytes": config[keys.METADATA_LOG_SEGMENT_BYTES],
                "segment.ms": config[keys.METADATA_LOG_SEGMENT_MS],
            }
        )
        spec = PartitionSpec(METADATA_PARTITION, METADATA_TOPIC_ID, topic_config)
        return open_partition(Placement(spec, self.directory, exists=True), registered=True)

    def _to_adopt(self, opened: OpenedMetadata) -> list[TopicRecord]:
        """Topics to make from directories, when nothing was ever written to the log."""
        if opened.replay.image.metadata_version:
            return []
        found = {
            partition: Path(directory.partition_path(partition))
            for directory in self._partitions_in
            for partition in directory.folders
        }
        return adopted_records(found)

    def _directory_of(self, partition: TopicPartition) -> bytes | None:
        if len(self._partitions_in) == 1 and not self._offline:
            return self._partitions_in[0].id_bytes
        for directory in self._partitions_in:
            if partition in directory.folders:
                return directory.id_bytes
        return None


def _refuse_without(offline: Mapping[Path, str]) -> NoReturn:
    reasons = "; ".join(f"{path}: {reason}" for path, reason in offline.items())
    raise ConfigError(
        f"the metadata log may be in a log directory that is offline ({reasons}); bring that back, or take "
        "it out of log.dirs if another one has never been used"
    )


def _refuse_several(directories: Sequence[LogDirectory]) -> NoReturn:
    names = " and ".join(str(directory.path / METADATA_DIRECTORY) for directory in directories)
    raise ConfigError(
        f"there are several metadata logs, or places for one: {names}. Only one broker's directories can be "
        "used, and metadata.log.dir has to name the one that has its metadata log"
    )
