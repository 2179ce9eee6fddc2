"""The compression codecs of Apache Kafka: gzip, snappy, lz4 and zstd; see docs/compression.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.compression import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.compression import CompressionCodec


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of compression levels."""
    return declared_keys(keys)


@hookimpl
def tidelog_compression_codecs() -> Iterable[CompressionCodec]:
    """Offer the four codecs."""
    # Not at the top: the module is imported to list plugins, too.
    from tidelog.plugins.compression.gzip import GzipCodec
    from tidelog.plugins.compression.lz4 import Lz4Codec
    from tidelog.plugins.compression.snappy import SnappyCodec
    from tidelog.plugins.compression.zstd import ZstdCodec

    return (GzipCodec(), SnappyCodec(), Lz4Codec(), ZstdCodec())
