"""A compression codec: bzip2, which only clients that have it can read."""

from __future__ import annotations

import bz2
from collections.abc import Iterable, Iterator

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.compression import Buffer, CompressionCodec

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

PIECE_BYTES = 128 * 1024


class SkeletonCompression(CompressionCodec):
    """What `compression.type` chooses; `id` is in the attributes of batches: 5, 6 and 7 are free."""

    id = 7
    name = "skeleton"

    def memory_for(self, data: Buffer) -> int:
        """Return how much memory `unpack` takes for these bytes."""
        return 8 * 1024 * 1024

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Compress in pieces."""
        packer = bz2.BZ2Compressor()
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Decompress in pieces, so that the broker can stop a batch that becomes too large."""
        unpacker = bz2.BZ2Decompressor()
        packed: Buffer = data
        while not unpacker.eof:
            yield unpacker.decompress(packed, PIECE_BYTES)
            if unpacker.needs_input and not unpacker.eof:
                raise EOFError("the stream ends early")
            packed = b""


@hookimpl
def tidelog_compression_codecs() -> Iterable[CompressionCodec]:
    """Offer the codec."""
    return [SkeletonCompression()]
