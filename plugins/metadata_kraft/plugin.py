"""Hooks of the metadata store `kraft`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.metadata import MetadataBackend, MetadataContext, MetadataStore


class KraftBackend:
    """Metadata in Kafka's own log, which is in one of the storage's directories."""

    name = "kraft"
    durable = True

    def create(self, context: MetadataContext) -> MetadataStore:
        """Return a store that is not open yet; the modules that do the work are loaded now."""
        from tidelog.plugins.metadata_kraft.store import KraftMetadata

        return KraftMetadata(context)


@hookimpl
def tidelog_metadata_stores() -> Iterable[MetadataBackend]:
    """Return the store `kraft`."""
    return (KraftBackend(),)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of the metadata log's directory, segments and snapshots."""
    from tidelog.kernel.config import declared_keys
    from tidelog.plugins.metadata_kraft import keys

    return declared_keys(keys)
