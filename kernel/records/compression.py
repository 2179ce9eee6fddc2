"""Compression codecs of record batches, each with a bound on what it may unpack to.

Codec ids are the low three bits of a batch's attributes: 1 gzip, 2 snappy, 3 lz4 (frame format), 4 zstd.
Snappy arrives raw or in the framing of the Java library (a 16-byte head, then blocks with their length).
The libraries are imported at first use: a broker that never looks into a batch never loads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.batch import Buffer

CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
GZIP_WINDOW_BITS = 31
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD_BYTES = 16
MAX_SNAPPY_PREAMBLE_BYTES = 5

_BLOCK_LENGTH = struct.Struct(">i")


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """The unpacked records.

    Raises:
        UnsupportedCompression: no such codec.
        CorruptBatch: the bytes are not of that codec, or they unpack to more than `max_bytes`.
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


def _too_large(max_bytes: int) -> CorruptBatch:
    return CorruptBatch(f"the records unpack to more than {max_bytes} bytes")


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

    unpacker = lz4.frame.LZ4FrameDecompressor()
    out: bytes = unpacker.decompress(bytes(data), max_length=max_bytes + 1)
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not unpacker.eof:
        raise CorruptBatch("the lz4 frame ends early")
    return out


def _zstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(bytes(data)) as reader:
        out: bytes = reader.read(max_bytes + 1)
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    return out


def _snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _snappy_block(view, max_bytes)
    out = bytearray()
    position = XERIAL_HEAD_BYTES
    while position < len(view):
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes does not fit the batch")
        out += _snappy_block(view[position : position + length], max_bytes - len(out))
        position += length
    return bytes(out)


def _snappy_block(block: memoryview, max_bytes: int) -> bytes:
    import cramjam

    if _snappy_length(block) > max_bytes:
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
