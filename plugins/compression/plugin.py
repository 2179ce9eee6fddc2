"""Hooks of the compression codecs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.compression import kafka_codecs, keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.compression import CompressionCodec


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of compression levels."""
    return declared_keys(keys)


@hookimpl
def tidelog_compression_codecs() -> Iterable[CompressionCodec]:
    """Return the four codecs."""
    return kafka_codecs()
