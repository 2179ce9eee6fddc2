"""Directories of a storage, as others may keep files in them, and what the storage knows of the topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig

NO_BROKER_EPOCH = -1
"""Epoch of a broker that is registered nowhere."""


class KnownTopic(NamedTuple):
    """The id of a topic, and the number of its partitions."""

    topic_id: UUID
    partitions: int


class KnownTopics(NamedTuple):
    """The topics that there are, by name, and names of recently deleted ones by id.

    `assigned(partition)` returns the id of the directory that a partition was last assigned to, None if it is
    unknown.
    """

    topics: Mapping[str, KnownTopic]
    deleted: Mapping[UUID, str]
    assigned: Callable[[TopicPartition], bytes | None]

    def has(self, partition: TopicPartition) -> bool:
        """Return whether there is such a partition."""
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition < topic.partitions


def _nowhere(_: TopicPartition) -> None:
    return None


NO_TOPICS: Final = KnownTopics({}, {}, _nowhere)


class DataDirectory(Protocol):
    """A directory of a storage, locked by this broker."""

    @property
    def path(self) -> Path:
        """The absolute path."""
        ...

    @property
    def id_bytes(self) -> bytes:
        """The directory's id, 16 bytes (KIP-858), known once the directories are identified."""
        ...

    @property
    def folders(self) -> Collection[TopicPartition]:
        """Partitions that have a directory here."""
        ...

    def partition_path(self, partition: TopicPartition) -> str:
        """Return the path of a partition's directory."""
        ...

    def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        """Blocking: return the topic id in a partition's directory, None without one.

        Raises:
            ValueError: it is malformed.
            OSError: the disk refused.
        """
        ...


class DataDirectories(Protocol):
    """The directories of a storage, in which the metadata store may have a log of its own."""

    def containing(self, has_files: Callable[[Path], bool]) -> Sequence[Path]:
        """Blocking: return the directories in service for which `has_files` returns true.

        One for which it raises `OSError` is offline, unless it is the last one.
        """
        ...

    def identify(self, metadata_directory: Path | None) -> None:
        """Blocking: give all directories their ids, and that of the metadata store, which may be another one.

        Called once, before `metadata_directory`, `cluster_id` and the ids are used.

        Raises:
            ConfigError: a directory cannot be used, or belongs to another cluster or node.
        """
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster id in each `meta.properties`: 22 characters of URL-safe base64."""
        ...

    @property
    def metadata_directory(self) -> DataDirectory | None:
        """The directory of the metadata store, None without one."""
        ...

    @property
    def in_service(self) -> Sequence[DataDirectory]:
        """Directories with partitions; one that fails later is no longer among them."""
        ...

    @property
    def offline(self) -> Mapping[Path, str]:
        """Path → why the directory is offline."""
        ...

    def open_metadata_log(
        self, partition: TopicPartition, topic_id: UUID, config: TopicConfig
    ) -> PartitionStore:
        """Blocking: open a log of the metadata store in `metadata_directory`, where its directory exists.

        It is recovered from its start, also after a clean stop.

        Raises:
            StorageError: the directory belongs to another topic, or cannot be served.
            OSError: the disk refused.
        """
        ...

    def empty_metadata_log(self, partition: TopicPartition, start_offset: int) -> None:
        """Blocking: remove the segments of such a log, which is closed; then it starts at `start_offset`."""
        ...
