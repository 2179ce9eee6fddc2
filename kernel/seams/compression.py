"""The compression seam: codecs for the records of batches.

A codec packs and unpacks a stream of bytes in pieces; it knows neither records nor batches. It is chosen by
the attributes of a batch, or to recompress by `compression.type`. Bounds on what is unpacked are the callers'
business: they count the pieces.
"""

from __future__ import annotations

from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.records.compression import (
    LEAST_MEMORY_BYTES,
    MAX_CODEC_ID,
    CompressionCodec,
    UnpackedTooLarge,
    offer_codecs,
    register_codecs,
    registered_codecs,
    steps_of,
)

__all__ = [
    "LEAST_MEMORY_BYTES",
    "MAX_CODEC_ID",
    "Buffer",
    "CompressionCodec",
    "UnpackedTooLarge",
    "offer_codecs",
    "register_codecs",
    "registered_codecs",
    "steps_of",
]
