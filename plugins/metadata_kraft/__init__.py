"""Metadata in a log of Apache Kafka's own format; see docs/metadata.md for the whole of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.metadata import MetadataBackend


@hookimpl
def tidelog_metadata_stores() -> Iterable[MetadataBackend]:
    """Offer the store `kraft`."""
    from tidelog.plugins.metadata_kraft.backend import KraftBackend

    return (KraftBackend(),)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Hand over the keys of the metadata log's directory, segments and snapshots."""
    from tidelog.kernel.config import declared_keys
    from tidelog.plugins.metadata_kraft import keys

    return declared_keys(keys)
