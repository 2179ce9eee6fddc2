"""The metadata seam: the store of topics, broker configuration, registration and producer ids.

A metadata store is chosen by the key `metadata`, apart from the storage that has the partitions. The storage
opens and closes it, since a store may keep its files in the storage's directories, and since a storage needs
to know which topics there are before it opens partitions:

    1. `is_stored_in`, `choose_directory`    only by a storage with directories, which has locked them
    2. `open`                                topics can be listed
    3. `activate`                            everything else can be called
    4. `close`                               after all partitions were closed

A store whose plugin derives it from `MetadataStoreBase` needs to implement the content only: `cluster_id` and
the methods from `topics` to `register_broker`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

import attrs

from tidelog.kernel.seams.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.seams.storage.partition_store import PartitionStore
    from tidelog.kernel.seams.tasks import Tasks

NO_BROKER_EPOCH = -1


@attrs.frozen
class TopicRecord:
    """A stored topic: its id, its number of partitions and its configuration overrides.

    `leader_epochs` are the partitions' current ones, as far as the store has them. `adopted`: the topic was
    found as bare directories, without the configuration that says how long its data is to be kept; nothing of
    it is deleted or compacted until its configuration is changed.
    """

    name: str
    topic_id: UUID
    partitions: int
    config: dict[str, str] = attrs.field(factory=dict[str, str])
    leader_epochs: tuple[int, ...] = attrs.field(default=(), eq=False)
    adopted: bool = False


class BrokerRegistration(NamedTuple):
    """How this broker registers: listener name → advertised address, and its rack."""

    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None


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


class MetadataStore(Protocol):
    """The registry of a cluster's topics, configuration and producer ids, and of partitions' directories."""

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64, created when the cluster was."""
        ...

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

    def topics(self) -> Sequence[TopicRecord]:
        """Return all topics, those to be adopted with the next `activate` included."""
        ...

    async def put_topic(self, record: TopicRecord) -> None:
        """Add a topic, or change its configuration, number of partitions or epochs; durable on return.

        A topic of that name with another id is replaced.

        Raises:
            OSError, StorageError: the disk refused; the topic is as before.
        """
        ...

    async def remove_topic(self, name: str) -> None:
        """Remove a topic, if there is one; durable on return.

        Raises:
            OSError: the disk refused; the topic is still there.
        """
        ...

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """Return the dynamic configuration of a broker, or with None that of all brokers."""
        ...

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace what `broker_config` returns; durable on return.

        Raises:
            OSError, StorageError: the disk refused; the configuration is as before.
        """
        ...

    async def allocate_producer_ids(self, count: int) -> range:
        """Return producer ids that were never returned before, durably.

        Raises:
            OSError: the disk refused.
        """
        ...

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Record that this broker is about to serve clients, and where; durable on return.

        Raises:
            OSError: the disk refused.
        """
        ...


class MetadataStoreBase:
    """Defaults for a store that has no files in the storage's directories and records nothing of them."""

    broker_epoch = NO_BROKER_EPOCH

    @property
    def deleted_topics(self) -> Mapping[UUID, str]:
        """None: folders of unknown topics are quarantined as stray."""
        return {}

    def is_stored_in(self, directory: Path) -> bool:
        """Return False."""
        return False

    def choose_directory(
        self, candidates: Sequence[Path], stored_in: Sequence[Path], offline: Mapping[Path, str]
    ) -> Path | None:
        """Return None: no directory is needed."""
        return None

    def open(self, directories: DataDirectories | None) -> None:
        """Do nothing."""

    async def activate(self) -> None:
        """Do nothing."""

    async def close(self, *, clean: bool) -> None:
        """Do nothing."""

    def assigned_directory(self, partition: TopicPartition) -> bytes | None:
        """Return None: the storage serves a partition from where its folder is."""
        return None

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Record nothing."""

    def drop_directory(self, directory_id: bytes) -> None:
        """Do nothing."""

    async def fail_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Record nothing."""

    async def fail_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Record nothing."""


@attrs.frozen
class MetadataContext:
    """What the kernel lends a metadata store; `tasks` run from `activate` to `close`."""

    config: Config
    node_id: int
    tasks: Tasks
    now_ms: Callable[[], int]


class MetadataBackend(Protocol):
    """A kind of metadata store, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `metadata` chooses it by."""
        ...

    @property
    def durable(self) -> bool:
        """Whether its content outlives the process."""
        ...

    def create(self, context: MetadataContext) -> MetadataStore:
        """Return a store that is not open yet."""
        ...
