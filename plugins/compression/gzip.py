"""The codec gzip, with zlib."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.compression import Buffer, CompressionCodec, steps_of
from tidelog.plugins.compression.keys import DEFAULT_GZIP_LEVEL, TOPIC_GZIP_LEVEL

GZIP_WINDOW_BITS = 31
"""A deflate window of 32 KB, and the head and end of gzip."""
GZIP_PIECE_BYTES = 32 * 1024
"""Decompressed bytes per call; the slowest library takes as long for these as others for 128 KB."""
PACKED_STEP_BYTES = 64 * 1024


class GzipCodec(CompressionCodec):
    """gzip, RFC 1952."""

    id = 1
    name = "gzip"
    level_key = TOPIC_GZIP_LEVEL

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form; see `CompressionCodec.pack`."""
        packer = zlib.compressobj(DEFAULT_GZIP_LEVEL if level is None else level, wbits=GZIP_WINDOW_BITS)
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records; see `CompressionCodec.unpack`."""
        unpacker = zlib.decompressobj(GZIP_WINDOW_BITS)
        for step in steps_of(data, PACKED_STEP_BYTES):
            packed: Buffer = step
            while piece := unpacker.decompress(packed, GZIP_PIECE_BYTES):
                yield piece
                packed = unpacker.unconsumed_tail
            if unpacker.eof:
                return
        raise CorruptBatch("the gzip stream ends early")
