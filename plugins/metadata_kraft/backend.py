"""The backend `kraft`, as the configuration key `metadata` names it."""

from __future__ import annotations

from tidelog.kernel.seams.metadata import MetadataContext, MetadataStore


class KraftBackend:
    """Metadata in Kafka's own log, which is in one of the storage's directories."""

    name = "kraft"
    durable = True

    def create(self, context: MetadataContext) -> MetadataStore:
        """Return a store that is not open yet; the modules that do the work are loaded now."""
        from tidelog.plugins.metadata_kraft.store import KraftMetadata

        return KraftMetadata(context)
