"""The compression codecs of Apache Kafka: gzip, snappy, lz4 and zstd; see docs/compression.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.kernel.seams.compression import CompressionCodec


def kafka_codecs() -> tuple[CompressionCodec, ...]:
    """Return the four codecs, with their libraries: for the plugin, and for clients, which load no plugin."""
    from tidelog.plugins.compression.gzip import GzipCodec
    from tidelog.plugins.compression.lz4 import Lz4Codec
    from tidelog.plugins.compression.snappy import SnappyCodec
    from tidelog.plugins.compression.zstd import ZstdCodec

    return (GzipCodec(), SnappyCodec(), Lz4Codec(), ZstdCodec())
