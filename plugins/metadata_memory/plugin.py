"""Hook of the metadata store `memory`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataBackend


@hookimpl
def tidelog_metadata_stores() -> Iterable[MetadataBackend]:
    """Offer the store `memory`."""
    from tidelog.plugins.metadata_memory.store import MemoryMetadataBackend

    return (MemoryMetadataBackend(),)
