"""A metadata store: keeps topics and configuration in memory; `write` is where to make them durable."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidelog.kernel import hookimpl
from tidelog.kernel.ids import new_id
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.seams.metadata import MetadataBackend, MetadataContext, MetadataStore
from tidelog.kernel.seams.metadata_base import MetadataStoreBase
from tidelog.kernel.seams.storage.directories import DataDirectories

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""


class SkeletonMetadata(MetadataStoreBase):
    """One immutable image, replaced by each change."""

    stored = frozenset({"quotas", "credentials", "acls", "features"})

    def open(self, directories: DataDirectories | None) -> None:
        """Set `image` to what was stored, here to nothing."""
        cluster_id = new_id() if directories is None else directories.cluster_id
        self.image = attrs.evolve(self.image, cluster_id=cluster_id)

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Store `image`, which is the last one with the change `delta`, or raise OSError."""


class SkeletonMetadataBackend:
    """What the key `metadata` chooses; one that is `durable` is proven with the storage `file`."""

    name = "skeleton"
    durable = False

    def create(self, context: MetadataContext) -> MetadataStore:
        """Return a store that is not open yet."""
        return SkeletonMetadata(context)


@hookimpl
def tidelog_metadata_stores() -> Iterable[MetadataBackend]:
    """Offer the metadata store."""
    return [SkeletonMetadataBackend()]
