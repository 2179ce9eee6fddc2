"""The part of a metadata store that a storage uses, and the directories that they share.

The whole metadata store is in `tidelog.kernel.seams.metadata`, with the order of these calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig

NO_BROKER_EPOCH = -1


class KnownTopic(Protocol):
    """A topic as the storage sees it."""

    @property
    def name(self) -> str:
        """The topic's name."""
        ...

    @property
    def topic_id(self) -> UUID:
        """The topic's id."""
        ...

    @property
    def partitions(self) -> int:
        """The number of its partitions."""
        ...


class DataDirectory(Protocol):
    """A directory of a storage, locked by this broker, with the id that `meta.properties` has."""

    @property
    def path(self) -> Path:
        """The absolute path."""
        ...

    @property
    def id_bytes(self) -> bytes:
        """The directory's id, 16 bytes (KIP-858)."""
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
    """The directories that a storage shares with the metadata store; all have their ids."""

    @property
    def cluster_id(self) -> str:
        """The cluster id in each `meta.properties`: 22 characters of URL-safe base64."""
        ...

    @property
    def metadata_directory(self) -> DataDirectory | None:
        """The directory that `MetadataStore.choose_directory` chose."""
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


class StorageMetadata(Protocol):
    """A metadata store as the storage sees it; the storage opens and closes it."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, `NO_BROKER_EPOCH` without one."""
        ...

    @property
    def deleted_topics(self) -> Mapping[UUID, str]:
        """Id → name of recently deleted topics, whose directories may still exist."""
        ...

    def is_stored_in(self, directory: Path) -> bool:
        """Blocking: return whether a directory has files of this store."""
        ...

    def choose_directory(
        self, candidates: Sequence[Path], stored_in: Sequence[Path], offline: Mapping[Path, str]
    ) -> Path | None:
        """Blocking: return the directory for the store's own files, None for a store that needs none.

        `candidates` are the storage's, `stored_in` those of them for which `is_stored_in` is true, `offline`
        those that cannot be read, and why. The result need not be one of them.

        Raises:
            ConfigError: no directory can be chosen; the message names the cause and the remedy.
        """
        ...

    def open(self, directories: DataDirectories | None) -> None:
        """Blocking: read what is stored; `directories` is None for a storage without any.

        Raises:
            ConfigError: the store cannot be used; the message names the cause and the remedy.
            OSError: the disk refused.
        """
        ...

    async def activate(self) -> None:
        """Begin to accept changes; the directories of all partitions are listed by now.

        Raises:
            OSError: the disk refused.
        """
        ...

    async def close(self, *, clean: bool) -> None:
        """Release everything, also after an error; with `clean` all partitions are durable.

        Does nothing when the store is not open.

        Raises:
            OSError, StorageError: something could not be made durable.
        """
        ...

    def assigned_directory(self, partition: TopicPartition) -> bytes | None:
        """Return the id of the directory that a partition was last assigned to, None if unknown."""
        ...

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Record the directory of a partition that was moved; durable on return.

        Raises:
            OSError: the disk refused.
        """
        ...

    def drop_directory(self, directory_id: bytes) -> None:
        """Exclude a directory from the registration, since it failed while its partitions were opened."""
        ...

    async def fail_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Record that a directory failed and its partitions have no leader; durable on return.

        Raises:
            OSError, StorageError: it could not be made durable.
        """
        ...

    async def fail_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Record that partitions that were not found have no leader; durable on return.

        Raises:
            OSError: the disk refused.
        """
        ...

    def topics(self) -> Sequence[KnownTopic]:
        """Return all topics, those to be adopted with the next `activate` included."""
        ...
