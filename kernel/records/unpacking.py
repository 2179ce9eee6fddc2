"""Unpacking the records of batches, piece by piece, with a bound on what they may unpack to.

Whoever only looks through the records holds a piece at a time and never the whole; `decompress` is for those
who need all of them. Codec ids and framings are told in `compression`. The libraries are imported at first
use: a broker that never looks into a batch never loads them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.records.compression import (
    BLOCK_LENGTH,
    CODEC_NAMES,
    GZIP_WINDOW_BITS,
    XERIAL_HEAD_BYTES,
    XERIAL_MAGIC,
)

PIECE_BYTES = 128 * 1024
"""What is unpacked at once where the library can be told so; small enough to stay in a processor's cache."""
GZIP_PIECE_BYTES = 32 * 1024
"""The same for the slowest of them, which takes as long for that."""
PACKED_STEP_BYTES = 64 * 1024
"""What is fed at once: these libraries copy what they were fed and have not used yet, again and again."""
UNPACKED_PIECE_BYTES = 1024 * 1024
"""What is copied at once of records that are not packed."""
ZSTD_STEP_BYTES = 64
"""Fed at once, with the rest of a block: this library has no bound on what comes out, but each block has one,
128 KB, and takes four bytes at least."""
ZSTD_BLOCK_HEAD_BYTES = 3
ZSTD_REPEATED_BYTE = 1
"""The type of a block that holds a single byte, whatever its size says."""
MAX_SNAPPY_PREAMBLE_BYTES = 5
EMPTY_BLOCKS_PER_STEP = 64
"""So many blocks of nothing are passed over at once."""
SPARE_DECOMPRESSORS = 4
"""As many are kept as threads unpack at the same time; each has a window of a few megabytes at most."""


class UnpackedTooLarge(CorruptBatch):
    """The records unpack to more than whoever asked can take."""


def unpack(codec: int, data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """The unpacked records in pieces, cut anywhere.

    Raises:
        UnsupportedCompression: no such codec.
        UnpackedTooLarge: they unpack to more than `max_bytes`.
        CorruptBatch: the bytes are not of that codec.
    """
    unpacker = _CODECS.get(codec)
    if unpacker is None:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    left = max_bytes
    try:
        for piece in unpacker(memoryview(data), max_bytes):
            left -= len(piece)
            if left < 0:
                raise _too_large(max_bytes)
            yield piece
    except CorruptBatch:
        raise
    except Exception as error:  # each library has errors of its own, some derive from Exception alone
        raise CorruptBatch(f"the records are not valid {CODEC_NAMES[codec]}: {error}") from error


def in_pieces(data: Buffer) -> Iterator[bytes]:
    """Records that are not packed, in pieces as `unpack` gives them."""
    for piece in _steps(memoryview(data), UNPACKED_PIECE_BYTES):
        yield bytes(piece)


def comes_in_pieces(codec: int) -> bool:
    """Whether each piece is small; a snappy block may be as large as the whole."""
    return _CODECS.get(codec) is not _snappy


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """The unpacked records, whole; see `unpack` for what is raised."""
    return b"".join(unpack(codec, data, max_bytes))


def _too_large(max_bytes: int) -> UnpackedTooLarge:
    return UnpackedTooLarge(f"the records unpack to more than {max_bytes} bytes")


def _steps(view: memoryview, size: int) -> Iterator[memoryview]:
    for position in range(0, len(view), size):
        yield view[position : position + size]


def _gzip(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(GZIP_WINDOW_BITS)
    for step in _steps(view, PACKED_STEP_BYTES):
        packed: Buffer = step
        while piece := unpacker.decompress(packed, GZIP_PIECE_BYTES):
            yield piece
            packed = unpacker.unconsumed_tail
        if unpacker.eof:
            return
    raise CorruptBatch("the gzip stream ends early")


def _lz4(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    import lz4.frame

    unpacker: Any = lz4.frame.LZ4FrameDecompressor()
    for step in _steps(view, PACKED_STEP_BYTES):
        packed: Buffer = step
        while True:
            yield unpacker.decompress(packed, max_length=PIECE_BYTES)
            if unpacker.eof:
                return
            if unpacker.needs_input:
                break
            packed = b""
    raise CorruptBatch("the lz4 frame ends early")


_spare_decompressors: list[Any] = []


def _zstd(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    import zstandard

    # To make one takes longer than to unpack a few kilobytes.
    decompressor = _spare_decompressors.pop() if _spare_decompressors else zstandard.ZstdDecompressor()
    try:
        unpacker = decompressor.decompressobj()
        for step in _zstd_steps(view, zstandard.frame_header_size(view)):
            yield unpacker.decompress(step)
            if unpacker.eof:
                return
    finally:
        if len(_spare_decompressors) < SPARE_DECOMPRESSORS:
            _spare_decompressors.append(decompressor)
    raise CorruptBatch("the zstd frame ends early")


def _zstd_steps(view: memoryview, head_bytes: int) -> Iterator[memoryview]:
    """The frame cut at the ends of blocks (RFC 8878, section 3.1.1.2)."""
    start, position = 0, head_bytes
    while position < len(view):
        head = int.from_bytes(view[position : position + ZSTD_BLOCK_HEAD_BYTES], "little")
        one_byte = head >> 1 & 0b11 == ZSTD_REPEATED_BYTE
        position += ZSTD_BLOCK_HEAD_BYTES + (1 if one_byte else head >> 3)
        if position - start >= ZSTD_STEP_BYTES:
            yield view[start:position]
            start = position
    yield view[start:]


def _snappy(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield _snappy_block(view, 0, max_bytes)
        return
    if len(view) < XERIAL_HEAD_BYTES:
        raise CorruptBatch("the head of the snappy blocks ends early")
    unpacked = blocks = 0
    position = XERIAL_HEAD_BYTES
    while position < len(view):
        (length,) = BLOCK_LENGTH.unpack_from(view, position)
        position += BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes does not fit the batch")
        piece = _snappy_block(view[position : position + length], unpacked, max_bytes)
        blocks += 1
        if piece or blocks % EMPTY_BLOCKS_PER_STEP == 0:
            yield piece
        unpacked += len(piece)
        position += length


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


_CODECS: dict[int, Callable[[memoryview, int], Iterator[bytes]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
