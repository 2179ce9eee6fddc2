"""Metadata store in memory: its image is all that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.ids import new_id
from tidelog.kernel.seams.metadata import MetadataContext, MetadataStore
from tidelog.kernel.seams.metadata_base import MetadataStoreBase

if TYPE_CHECKING:
    from tidelog.kernel.metadata import MetadataDelta, MetadataImage
    from tidelog.kernel.seams.storage.directories import DataDirectories


class MemoryMetadata(MetadataStoreBase):
    """`MetadataStore` without files; the cluster id is the storage's where that has one."""

    stored = frozenset({"quotas", "credentials", "acls", "tokens", "features"})

    def open(self, directories: DataDirectories | None) -> None:
        """Take over the cluster id of the storage's directories."""
        cluster_id = new_id() if directories is None else directories.cluster_id
        self.image = attrs.evolve(self.image, cluster_id=cluster_id)

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Do nothing: nothing survives the process."""


class MemoryMetadataBackend:
    """Metadata in the memory of this process; each store that it creates begins empty."""

    name = "memory"
    durable = False

    def create(self, context: MetadataContext) -> MetadataStore:
        """Return a store without any topic."""
        return MemoryMetadata(context)
