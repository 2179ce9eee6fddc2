"""The metadata seam: the store of topics, configuration, quotas, credentials and producer ids.

A metadata store is chosen by the key `metadata`, apart from the storage of the partitions. It may keep its
files in the storage's directories, and a storage needs the topics before it opens partitions; so the broker
opens and closes them in turns (`tidelog.kernel.stores`):

    1. `is_stored_in`, `choose_directory`    only with a storage with directories, which has locked them
    2. `open`                                topics can be listed
    3. `activate`                            everything else can be called
    4. `close`                               after all partitions were closed

What is stored is one immutable image; a change is a delta that leads to the next one. A store whose plugin
derives it from `MetadataStoreBase` (`tidelog.kernel.seams.metadata_base`) needs to implement `open`, which
sets `image`, and `write`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

import attrs

from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.seams.features import SupportedLevels
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.storage.directories import DataDirectories
    from tidelog.kernel.seams.tasks import BackgroundTask


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
    """The registry of what is true of a cluster."""

    @property
    def image(self) -> MetadataImage:
        """All that is durable, those topics included that the next `activate` adopts."""
        ...

    async def commit(self, delta: MetadataDelta) -> None:
        """Make a change, all of it or nothing: durable, in `image` and delivered on return.

        What it sets to its present state, or removes and is not there, is no change. Registrations of brokers
        are no part of it, and the log directories of partitions are the store's: it assigns those where they
        lie. A topic of a name that is there with another id is replaced.

        Raises:
            OSError, StorageError: the disk refused, or the store has no such things; all is as before.
        """
        ...

    @property
    def supported_features(self) -> Mapping[str, SupportedLevels]:
        """The features of the store itself, such as `metadata.version`, with the levels that it can write."""
        ...

    def check_levels(self, levels: Mapping[str, int]) -> None:
        """Check that levels, which are supported and differ from the current ones, can be committed.

        Raises:
            InvalidUpdateVersion: one cannot; the message names it.
        """
        ...

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

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the work on the active store that runs as long as the broker does."""
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


def _no_delivery(delta: MetadataDelta) -> None:
    """Do nothing."""


@attrs.frozen
class MetadataContext:
    """What a metadata store may use of its broker.

    `deliver(delta)` is called with every change, once it is durable and in the image, in the order of the
    commits. It does not wait.
    """

    config: Config
    node_id: int
    now_ms: Callable[[], int]
    deliver: Callable[[MetadataDelta], None] = _no_delivery


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
