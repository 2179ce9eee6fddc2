"""The codec snappy, with cramjam: raw, as librdkafka sends it, or in the framing of the Java library.

    magic       8 bytes  82 "SNAPPY" 00
    version     int32    1
    compatible  int32    1
    blocks: length int32, then so many bytes of one raw block

Source: org.xerial.snappy, `SnappyOutputStream`; Google's format description of raw blocks.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from itertools import islice

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.compression import (
    LEAST_MEMORY_BYTES,
    Buffer,
    CompressionCodec,
    UnpackedTooLarge,
)

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD_BYTES = 16
XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
"""Uncompressed bytes of a block, as in the Java library."""
MAX_SNAPPY_PREAMBLE_BYTES = 5
MOST_MEASURED = 256
"""Blocks that are looked at to know how much memory they take; a batch of 1 MB has 64."""
EMPTY_BLOCKS_PER_STEP = 64
"""Empty blocks that are skipped in one step."""
MOST_SNAPPY_RATIO = 22
"""Three bytes of a snappy block decompress to 64 at most."""
_BLOCK_LENGTH = struct.Struct(">i")


class SnappyCodec(CompressionCodec):
    """snappy: reads both framings, writes the Java library's."""

    id = 2
    name = "snappy"
    library = "cramjam"

    def memory_for(self, data: Buffer) -> int:
        """Return what the largest raw block may take; see `CompressionCodec.memory_for`."""
        sizes: list[int] = []
        with contextlib.suppress(CorruptBatch):
            sizes = [
                _unpacked_length(block) for block in islice(_blocks(memoryview(data)), MOST_MEASURED + 1)
            ]
        most_bytes = MOST_SNAPPY_RATIO * len(data)
        if 0 < len(sizes) <= MOST_MEASURED:
            most_bytes = min(max(sizes), most_bytes)
        return most_bytes + LEAST_MEMORY_BYTES

    def packs_quickly(self, level: int | None) -> bool:
        """Return True; see `CompressionCodec.packs_quickly`."""
        return True

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form; see `CompressionCodec.pack`."""
        yield XERIAL_MAGIC + XERIAL_VERSIONS
        left = b""
        for piece in pieces:
            view = memoryview(left + piece if left else piece)
            whole = len(view) - len(view) % XERIAL_BLOCK_BYTES
            for start in range(0, whole, XERIAL_BLOCK_BYTES):
                yield _packed_block(view[start : start + XERIAL_BLOCK_BYTES])
            left = bytes(view[whole:])
        if left:
            yield _packed_block(left)

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records; see `CompressionCodec.unpack`."""
        unpacked = 0
        for number, block in enumerate(_blocks(data), 1):
            piece = _unpacked_block(block, unpacked, max_bytes)
            if piece or number % EMPTY_BLOCKS_PER_STEP == 0:
                yield piece
            unpacked += len(piece)

    def unpack_at_once(self, data: memoryview, most_bytes: int) -> bytes | None:
        """Return all decompressed records; see `CompressionCodec.unpack_at_once`."""
        blocks = [*islice(_blocks(data), MOST_MEASURED + 1)]
        if len(blocks) > MOST_MEASURED or sum(map(_unpacked_length, blocks)) > most_bytes:
            return None
        return b"".join([_unpacked_block(block, 0, most_bytes) for block in blocks])


def _blocks(data: memoryview) -> Iterator[memoryview]:
    """Iterate over the raw blocks, the only one of a batch without framing.

    Raises:
        CorruptBatch: the framing is malformed; the blocks before that were returned.
    """
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield data
        return
    if len(data) < XERIAL_HEAD_BYTES:
        raise CorruptBatch("the head of the snappy blocks ends early")
    position = XERIAL_HEAD_BYTES
    # Fewer bytes at the end are ignored, as by the Java library.
    while len(data) - position >= _BLOCK_LENGTH.size:
        head = data[position : position + _BLOCK_LENGTH.size]
        position += _BLOCK_LENGTH.size
        length = int.from_bytes(head, "big", signed=True)
        if not 0 < length <= len(data) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes does not fit the batch")
        yield data[position : position + length]
        position += length


def _packed_block(data: Buffer) -> bytes:
    import cramjam

    block = bytes(cramjam.snappy.compress_raw(data))
    return _BLOCK_LENGTH.pack(len(block)) + block


def _unpacked_block(block: memoryview, already_bytes: int, max_bytes: int) -> bytes:
    import cramjam

    length = _unpacked_length(block)
    if already_bytes + length > max_bytes:
        raise UnpackedTooLarge(max_bytes)
    if length > MOST_SNAPPY_RATIO * len(block):
        raise CorruptBatch(f"{len(block)} bytes of snappy cannot unpack to {length}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _unpacked_length(block: memoryview) -> int:
    length = 0
    for index, byte in enumerate(block[:MAX_SNAPPY_PREAMBLE_BYTES]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return length
    raise CorruptBatch("a snappy block has no length")
