"""What a storage asks of the metadata store, and which directories it shares with it.

The whole of a metadata store is in `tidelog.kernel.seams.metadata`, with the order of these calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from tidelog.kernel.seams.storage.partition_store import PartitionStore, TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig

NO_BROKER_EPOCH = -1


class KnownTopic(Protocol):
    """A topic whose partitions the storage has, or is to have."""

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
        """How many partitions it has."""
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
        """Partitions that have a folder here."""
        ...

    def partition_path(self, partition: TopicPartition) -> str:
        """Return the folder of a partition."""
        ...

    def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        """Blocking: return the topic id in a partition's folder, None when none is there.

        Raises:
            ValueError: it is malformed.
            OSError: the disk refused.
        """
        ...


class DataDirectories(Protocol):
    """What a storage with directories shares with the metadata store; all directories are identified."""

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
        """Directories that cannot be used → why."""
        ...

    def open_metadata_log(
        self, partition: TopicPartition, topic_id: UUID, config: TopicConfig
    ) -> PartitionStore:
        """Blocking: open a log of the metadata store's own in `metadata_directory`, whose folder is there.

        It is recovered from its start, however the last stop was.

        Raises:
            StorageError: the folder belongs to another topic, or cannot be served.
            OSError: the disk refused.
        """
        ...

    def empty_metadata_log(self, partition: TopicPartition, start_offset: int) -> None:
        """Blocking: remove the segments of such a log, which is closed; it starts at an offset then."""
        ...


class StorageMetadata(Protocol):
    """A metadata store, as the storage sees it, which opens and closes it."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, `NO_BROKER_EPOCH` without one."""
        ...

    @property
    def deleted_topics(self) -> Mapping[UUID, str]:
        """Id → name of recently deleted topics, of which folders may be left."""
        ...

    def is_stored_in(self, directory: Path) -> bool:
        """Blocking: return whether a directory has files of this store."""
        ...

    def choose_directory(
        self, candidates: Sequence[Path], stored_in: Sequence[Path], offline: Mapping[Path, str]
    ) -> Path | None:
        """Blocking: return the directory for the store's own files, None for a store that needs none.

        `candidates` are the storage's, `stored_in` those of them for which `is_stored_in` is true, `offline`
        cannot be looked into, and why. It may be one that is not among them.

        Raises:
            ConfigError: it cannot be decided; the message says why and what to do.
        """
        ...

    def open(self, directories: DataDirectories | None) -> None:
        """Blocking: read what is stored; `directories` is None for a storage without any.

        Raises:
            ConfigError: the store cannot be used; the message says why and what to do.
            OSError: the disk refused.
        """
        ...

    async def activate(self) -> None:
        """Begin to take changes; the folders of partitions are all listed by now.

        Raises:
            OSError: the disk refused.
        """
        ...

    async def close(self, *, clean: bool) -> None:
        """Release everything; with `clean` all partitions are durable, which may be recorded.

        It is released after an error as well. Does nothing when the store is not open.

        Raises:
            OSError, StorageError: something could not be made durable.
        """
        ...

    def assigned_directory(self, partition: TopicPartition) -> bytes | None:
        """Return the id of the directory that a partition was last assigned to, None if it is not known."""
        ...

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Record that a partition is in another directory now; durable on return.

        Raises:
            OSError: the disk refused.
        """
        ...

    def drop_directory(self, directory_id: bytes) -> None:
        """Do not register a directory, which failed while its partitions were opened."""
        ...

    async def fail_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Record that a directory failed and its partitions have no leader; durable on return.

        Raises:
            OSError, StorageError: it could not be made durable.
        """
        ...

    async def fail_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Record that partitions, which were not found, have no leader; durable on return.

        Raises:
            OSError: the disk refused.
        """
        ...

    def topics(self) -> Sequence[KnownTopic]:
        """Return all topics, those to be adopted with the next `activate` included."""
        ...
