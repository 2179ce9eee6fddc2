"""Compression of record batches; `unpacking` decompresses.

Codec ids are the low three bits of a batch's attributes: 1 gzip, 2 snappy, 3 lz4 (frame format), 4 zstd.
Snappy arrives raw or in the framing of the Java library (a 16-byte head, then blocks with their length).
The libraries are imported at first use.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from tidelog.kernel.errors import UnsupportedCompression
from tidelog.kernel.records.batch import Buffer

CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
GZIP_WINDOW_BITS = 31
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD_BYTES = 16
XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
"""Uncompressed bytes of a block, as in the Java library."""
BLOCK_LENGTH = struct.Struct(">i")


def compress(codec: int, data: Buffer) -> bytes:
    """Return the compressed records, in the framing that Kafka's readers accept; codec 0 only copies.

    Raises:
        UnsupportedCompression: no such codec.
    """
    pack = _PACKERS.get(codec)
    if pack is None:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    return pack(data)


def _pack_gzip(data: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
    return packer.compress(data) + packer.flush()


def _pack_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    out = bytearray(XERIAL_MAGIC + XERIAL_VERSIONS)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        out += BLOCK_LENGTH.pack(len(block)) + block
    return bytes(out)


def _pack_lz4(data: Buffer) -> bytes:
    import lz4.frame

    # Kafka's reader refuses linked blocks.
    library: Any = lz4.frame
    packed: bytes = library.compress(data, block_linked=False)
    return packed


def _pack_zstd(data: Buffer) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


_PACKERS: dict[int, Callable[[Buffer], bytes]] = {
    0: bytes,
    1: _pack_gzip,
    2: _pack_snappy,
    3: _pack_lz4,
    4: _pack_zstd,
}
