"""The codec lz4: the frame format of liblz4.

    magic       uint32   184D2204, little-endian
    FLG         1 byte   version, independent blocks, checksums, whether a content size follows
    BD          1 byte   maximum size of a block
    content size uint64  if FLG has its bit
    HC          1 byte   second byte of xxHash-32 of the descriptor, which is FLG, BD and the content size
    blocks, end mark, perhaps a checksum

Clients before Kafka 0.10 hashed the magic as well (KAFKA-3160), and expect that of messages of format 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.compression import LEAST_MEMORY_BYTES, Buffer, CompressionCodec, steps_of
from tidelog.plugins.compression.keys import DEFAULT_LZ4_LEVEL, TOPIC_LZ4_LEVEL

PIECE_BYTES = 128 * 1024
"""Decompressed bytes per call; small enough for a processor's cache."""
PACKED_STEP_BYTES = 64 * 1024
FLG_AT = 4
BLOCK_SIZE_AT = 5
LEAST_HEAD_BYTES = 7
CONTENT_SIZE_BYTES = 8
DICTIONARY_ID_BYTES = 4
CONTENT_SIZE_BIT = 0x08
DICTIONARY_ID_BIT = 0x01
BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
FASTEST_LEVEL = 0
"""The fast compressor, which Apache Kafka uses at its default level, too."""


class Lz4Codec(CompressionCodec):
    """lz4 frames, with independent blocks: Kafka's reader refuses linked ones."""

    id = 3
    name = "lz4"
    library = "lz4.frame"
    level_key = TOPIC_LZ4_LEVEL

    def memory_for(self, data: Buffer) -> int:
        """Return what the library takes for blocks of that frame; see `CompressionCodec.memory_for`."""
        if len(data) <= BLOCK_SIZE_AT:
            return LEAST_MEMORY_BYTES
        return 3 * BLOCK_BYTES.get(data[BLOCK_SIZE_AT] >> 4 & 0b111, 0) + LEAST_MEMORY_BYTES

    def packs_quickly(self, level: int | None) -> bool:
        """Return whether it is the fast compressor's level; see `CompressionCodec.packs_quickly`."""
        return level is None or level == DEFAULT_LZ4_LEVEL

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form; see `CompressionCodec.pack`."""
        import lz4.frame

        chosen = FASTEST_LEVEL if level is None or level == DEFAULT_LZ4_LEVEL else level
        packer: Any = lz4.frame.LZ4FrameCompressor(block_linked=False, compression_level=chosen)
        yield packer.begin()
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records; see `CompressionCodec.unpack`."""
        return _unpack(steps_of(data, PACKED_STEP_BYTES))

    def unpack_at_once(self, data: memoryview, most_bytes: int) -> bytes | None:
        """Return all decompressed records; see `CompressionCodec.unpack_at_once`."""
        import lz4.frame

        # Not `LZ4FrameDecompressor`, which copies what it was given.
        library: Any = lz4.frame
        context = library.create_decompression_context()
        records: bytes
        records, _, ended = library.decompress_chunk(context, data, max_length=most_bytes)
        return records if ended else None

    def pack_v0(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form, with the checksum of clients before Kafka 0.10."""
        packed = self.pack(pieces, level)
        head = bytearray(next(packed))
        head[-1] = xxhash_32(head[:-1]) >> 8 & 0xFF
        yield bytes(head)
        yield from packed

    def unpack_v0(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records; the checksum of the head is not compared, as in Kafka."""
        size = _head_bytes(data)
        head = bytearray(data[:size])
        head[-1] = xxhash_32(head[FLG_AT:-1]) >> 8 & 0xFF

        def steps() -> Iterator[Buffer]:
            yield head
            yield from steps_of(data[size:], PACKED_STEP_BYTES)

        return _unpack(steps())


def _unpack(steps: Iterator[Buffer]) -> Iterator[bytes]:
    import lz4.frame

    unpacker: Any = lz4.frame.LZ4FrameDecompressor()
    for packed in steps:
        while True:
            yield unpacker.decompress(packed, max_length=PIECE_BYTES)
            if unpacker.eof:
                return
            if unpacker.needs_input:
                break
            packed = b""
    raise CorruptBatch("the lz4 frame ends early")


def _head_bytes(frame: memoryview) -> int:
    size = LEAST_HEAD_BYTES
    if len(frame) > FLG_AT:
        size += CONTENT_SIZE_BYTES * bool(frame[FLG_AT] & CONTENT_SIZE_BIT)
        size += DICTIONARY_ID_BYTES * bool(frame[FLG_AT] & DICTIONARY_ID_BIT)
    if len(frame) < size:
        raise CorruptBatch("the lz4 frame ends in its head")
    return size


_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1
_WORD_BYTES = 4
_MASK = 0xFFFFFFFF


def xxhash_32(data: Buffer) -> int:
    """Return the xxHash-32, seed 0, of fewer than 16 bytes, as the head of a frame without dictionary has."""
    value = _PRIME_5 + len(data)
    words = len(data) - len(data) % _WORD_BYTES
    for start in range(0, words, _WORD_BYTES):
        word = int.from_bytes(data[start : start + _WORD_BYTES], "little")
        value = _rotated(value + word * _PRIME_3, 17) * _PRIME_4
    for byte in data[words:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1
    value &= _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
