"""Base class of metadata stores that have an image and make each next one durable as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs
import trio

from tidelog.kernel.errors import InvalidUpdateVersion, StorageError
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.seams.features import HIGHEST_LEVELS, SupportedLevels
from tidelog.kernel.seams.storage.directories import NO_BROKER_EPOCH
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import BrokerRegistration, MetadataContext, MetadataQuorum
    from tidelog.kernel.seams.storage.directories import DataDirectories
    from tidelog.kernel.seams.tasks import BackgroundTask

_OPTIONAL: Final = {
    "quotas": "client quotas",
    "credentials": "SCRAM credentials",
    "tokens": "delegation tokens",
    "acls": "access control entries",
    "features": "levels of features",
}


class MetadataStoreBase:
    """A store that has an image and makes each next one durable by `write`.

    The defaults are those of a store that has no files in the storage's directories and records nothing of
    them. It has topics, configuration and producer ids; `stored` names what else of a delta it can write.
    """

    broker_epoch = NO_BROKER_EPOCH
    quorum: MetadataQuorum | None = None
    supported_features: Mapping[str, SupportedLevels] = MappingProxyType({})
    stored: frozenset[str] = frozenset()

    def __init__(self, context: MetadataContext) -> None:
        self.image = MetadataImage(features=HIGHEST_LEVELS)
        self._context = context
        self._committing = trio.Lock()

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make `image` durable, which `delta` leads to.

        Raises:
            OSError: the disk refused.
        """
        raise NotImplementedError

    async def commit(self, delta: MetadataDelta) -> None:
        """Make a change, unless it has what this store cannot write."""
        for name, title in _OPTIONAL.items():
            if getattr(delta, name) and name not in self.stored:
                raise StorageError(f"the metadata store {type(self).__name__} stores no {title}")
        # One at a time, and delivered in this order: each image is made of the one before.
        async with self._committing:
            # What is durable has to become the image, whether or not the client that wants it is still there.
            with trio.CancelScope(shield=True):
                if delta.features:
                    delta = attrs.evolve(delta, features_epoch=self.image.features_epoch + 1)
                image = delta.apply(self.image)
                await self.write(delta, image)
                self.image = image
                self._context.deliver(delta)

    def check_levels(self, levels: Mapping[str, int]) -> None:
        """Refuse every change, unless levels are stored."""
        for name in levels if "features" not in self.stored else ():
            raise InvalidUpdateVersion(f"the level of {name} is fixed: this metadata store records no levels")

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

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Record nothing."""

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Record nothing."""

    async def fail_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Record nothing."""

    async def fail_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Record nothing."""
