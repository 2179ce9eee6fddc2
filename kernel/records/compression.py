"""Compression codecs of record batches, each with a bound on what it may unpack to.

Codec ids are the low three bits of a batch's attributes: 1 gzip, 2 snappy, 3 lz4 (frame format), 4 zstd.
Snappy arrives raw or in the framing of the Java library (a 16-byte head, then blocks with their length).
The libraries are imported at first use: a broker that never looks into a batch never loads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.batch import Buffer


class UnpackedTooLarge(CorruptBatch):
    """The records unpack to more than whoever asked can take."""


CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
GZIP_WINDOW_BITS = 31
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD_BYTES = 16
XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
"""Unpacked bytes of a block, as the Java library cuts them."""
MAX_SNAPPY_PREAMBLE_BYTES = 5
LZ4_STEP_BYTES = 1024 * 1024
"""What is unpacked at once: this library allocates all that it is allowed to give, before it has anything."""
ZSTD_STEP_BYTES = 1024
"""What is fed at once: this library has no bound on what comes out, which is 32768 times as much at most."""

_BLOCK_LENGTH = struct.Struct(">i")


def compress(codec: int, data: Buffer) -> bytes:
    """The packed records, as Kafka's own readers take them; codec 0 only copies.

    Raises:
        UnsupportedCompression: no such codec.
    """
    pack = _PACKERS.get(codec)
    if pack is None:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    return pack(data)


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """The unpacked records.

    Raises:
        UnsupportedCompression: no such codec.
        UnpackedTooLarge: they unpack to more than `max_bytes`.
        CorruptBatch: the bytes are not of that codec.
    """
    unpack = _CODECS.get(codec)
    if unpack is None:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    try:
        return unpack(data, max_bytes)
    except CorruptBatch:
        raise
    except Exception as error:  # each library has errors of its own, some derive from Exception alone
        raise CorruptBatch(f"the records are not valid {CODEC_NAMES[codec]}: {error}") from error


def _too_large(max_bytes: int) -> UnpackedTooLarge:
    return UnpackedTooLarge(f"the records unpack to more than {max_bytes} bytes")


def _gzip(data: Buffer, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(GZIP_WINDOW_BITS)
    out = unpacker.decompress(data, max_bytes + 1)
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not unpacker.eof:
        raise CorruptBatch("the gzip stream ends early")
    return out


def _lz4(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    unpacker: Any = lz4.frame.LZ4FrameDecompressor()
    out = bytearray()
    packed = bytes(data)
    while not unpacker.eof:
        piece: bytes = unpacker.decompress(packed, max_length=LZ4_STEP_BYTES)
        if not piece and not unpacker.eof:
            raise CorruptBatch("the lz4 frame ends early")
        out += piece
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
        packed = b""
    return bytes(out)


def _zstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard

    unpacker = zstandard.ZstdDecompressor().decompressobj()
    view = memoryview(data)
    out = bytearray()
    for position in range(0, len(view), ZSTD_STEP_BYTES):
        out += unpacker.decompress(view[position : position + ZSTD_STEP_BYTES])
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
        if unpacker.eof:
            return bytes(out)
    raise CorruptBatch("the zstd frame ends early")


def _snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _snappy_block(view, 0, max_bytes)
    if len(view) < XERIAL_HEAD_BYTES:
        raise CorruptBatch("the head of the snappy blocks ends early")
    out = bytearray()
    position = XERIAL_HEAD_BYTES
    while position < len(view):
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes does not fit the batch")
        out += _snappy_block(view[position : position + length], len(out), max_bytes)
        position += length
    return bytes(out)


def _snappy_block(block: memoryview, already_bytes: int, max_bytes: int) -> bytes:
    import cramjam

    if already_bytes + _snappy_length(block) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _snappy_length(block: memoryview) -> int:
    length = 0
    for index, byte in enumerate(block[:MAX_SNAPPY_PREAMBLE_BYTES]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return length
    raise CorruptBatch("a snappy block has no length")


_CODECS: dict[int, Callable[[Buffer, int], bytes]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}


def _pack_gzip(data: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
    return packer.compress(data) + packer.flush()


def _pack_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    out = bytearray(XERIAL_MAGIC + XERIAL_VERSIONS)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        out += _BLOCK_LENGTH.pack(len(block)) + block
    return bytes(out)


def _pack_lz4(data: Buffer) -> bytes:
    import lz4.frame

    # Kafka's own reader refuses blocks that build on each other.
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
