"""The metadata seam: the store of topics, configuration, quotas, credentials and producer ids.

A metadata store is chosen by the key `metadata`, apart from the storage of the partitions. It may keep its
files in the storage's directories, and a storage needs the topics before it opens partitions; so the broker
opens and closes them in turns (`tidelog.kernel.stores`):

    1. `is_stored_in`, `choose_directory`    only with a storage with directories, which has locked them
    2. `open`                                topics can be listed
    3. `activate`                            everything else can be called
    4. `close`                               after all partitions were closed

A store whose plugin derives it from `MetadataStoreBase` needs to implement the content only: `cluster_id` and
the methods from `topics` to `register_broker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

import attrs

from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.features import FeatureStore, FixedLevels
from tidelog.kernel.seams.storage.directories import NO_BROKER_EPOCH
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.client_quotas import QuotaChange, QuotaEntity
    from tidelog.kernel.seams.resource_configs import ResourceScope
    from tidelog.kernel.seams.scram import CredentialKey, ScramCredential
    from tidelog.kernel.seams.storage.directories import DataDirectories
    from tidelog.kernel.seams.tasks import BackgroundTask


@attrs.frozen
class TopicRecord:
    """A stored topic: its id, its number of partitions and its configuration overrides.

    `leader_epochs` are those of the partitions, as far as the store has them. `adopted`: the topic was found
    as directories without a configuration, so nothing of it is deleted or compacted until its configuration
    is changed.
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


class QuorumVoter(NamedTuple):
    """A voter of the metadata log: its node id and the id of its directory, zeros if that is not recorded."""

    node_id: int
    directory_id: bytes


class MetadataQuorum(NamedTuple):
    """State of the metadata log: its leader, and the offsets after the last and the last durable record."""

    leader_id: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    voters: tuple[QuorumVoter, ...]


class MetadataStore(Protocol):
    """The registry of a cluster's topics, configuration and producer ids."""

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

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64, created when the cluster was."""
        ...

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the work on the active store that runs as long as the broker does."""
        ...

    def topics(self) -> Sequence[TopicRecord]:
        """Return all topics, those to be adopted with the next `activate` included."""
        ...

    async def put_topics(self, *records: TopicRecord) -> None:
        """Add topics, or change their configuration, number of partitions or epochs; durable on return.

        The topics are different ones. A topic of one's name with another id is replaced.

        Raises:
            OSError, StorageError: the disk refused; all topics are as before.
        """
        ...

    async def remove_topics(self, *names: str) -> None:
        """Remove topics, as far as there are any of these names; durable on return.

        Raises:
            OSError, StorageError: the disk refused; the topics are still there.
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

    def configured_resources(self, scope: ResourceScope) -> Sequence[str]:
        """Return the names of the groups, or subscriptions to client metrics, that have a configuration."""
        ...

    def resource_config(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return the configuration of a group or of a subscription to client metrics."""
        ...

    async def put_resource_configs(
        self, scope: ResourceScope, configs: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Replace what `resource_config` returns for each name; durable on return.

        Raises:
            OSError, StorageError: the disk refused; the configurations are as before.
        """
        ...

    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Return a view of the quotas of each entity that has any."""
        ...

    async def alter_client_quotas(self, changes: Sequence[QuotaChange]) -> None:
        """Set and remove quotas, all or none; durable on return. To remove what is not set changes nothing.

        Raises:
            OSError, StorageError: the disk refused; the quotas are as before.
        """
        ...

    def scram_credentials(self) -> Mapping[CredentialKey, ScramCredential]:
        """Return a view of the credentials of all users."""
        ...

    async def alter_scram_credentials(self, changes: Mapping[CredentialKey, ScramCredential | None]) -> None:
        """Set credentials, and delete those whose value is None, all or none; durable on return.

        Raises:
            OSError, StorageError: the disk refused; the credentials are as before.
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

    @property
    def quorum(self) -> MetadataQuorum | None:
        """The state of the metadata log, None for a store that is no log."""
        ...

    @property
    def features(self) -> FeatureStore:
        """The finalized levels of features, those of the broker included."""
        ...


class MetadataStoreBase:
    """Defaults for a store that has no files in the storage's directories and records nothing of them.

    It has no quotas, no credentials and no configuration of groups and of client metrics, and refuses all.
    """

    broker_epoch = NO_BROKER_EPOCH
    quorum: MetadataQuorum | None = None
    features: FeatureStore = FixedLevels()

    @property
    def deleted_topics(self) -> Mapping[UUID, str]:
        """None: directories of unknown topics are quarantined as stray."""
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

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return none."""
        return ()

    def configured_resources(self, scope: ResourceScope) -> Sequence[str]:
        """Return none."""
        return ()

    def resource_config(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return none."""
        return {}

    async def put_resource_configs(
        self, scope: ResourceScope, configs: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Refuse every configuration."""
        raise StorageError(f"the metadata store {type(self).__name__} stores no configuration of a {scope}")

    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Return none."""
        return {}

    async def alter_client_quotas(self, changes: Sequence[QuotaChange]) -> None:
        """Refuse every change."""
        raise StorageError(f"the metadata store {type(self).__name__} stores no client quotas")

    def scram_credentials(self) -> Mapping[CredentialKey, ScramCredential]:
        """Return none."""
        return {}

    async def alter_scram_credentials(self, changes: Mapping[CredentialKey, ScramCredential | None]) -> None:
        """Refuse every change."""
        raise StorageError(f"the metadata store {type(self).__name__} stores no SCRAM credentials")

    def assigned_directory(self, partition: TopicPartition) -> bytes | None:
        """Return None: the storage serves a partition from the directory where it finds it."""
        return None

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Record nothing."""

    async def fail_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Record nothing."""

    async def fail_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Record nothing."""


@attrs.frozen
class MetadataContext:
    """What a metadata store may use of its broker."""

    config: Config
    node_id: int
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
