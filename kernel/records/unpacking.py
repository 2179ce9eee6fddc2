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
ZSTD_MOST_HEAD_BYTES = 18
ZSTD_WINDOW_AT = 5
ZSTD_SINGLE_SEGMENT = 0x20
ZSTD_LEAST_WINDOW_LOG = 10
ZSTD_BLOCK_HEAD_BYTES = 3
ZSTD_REPEATED_BYTE = 1
"""The type of a block that holds a single byte, whatever its size says."""
MAX_SNAPPY_PREAMBLE_BYTES = 5
EMPTY_BLOCKS_PER_STEP = 64
"""So many blocks of nothing are passed over at once."""
SNAPPY, LZ4, ZSTD = 2, 3, 4
MOST_SNAPPY_RATIO = 22
"""Three bytes of a snappy block stand for 64 at most."""
LZ4_BLOCK_SIZE_AT = 5
LZ4_BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
LEAST_MEMORY_BYTES = 512 * 1024
"""A piece or two, and what a library needs for itself."""
MAX_ZSTD_WINDOW_BYTES = 128 * 1024 * 1024
"""What the library that Apache Kafka uses takes, too."""
SPARE_DECOMPRESSORS = 4
SPARE_WINDOW_BYTES = 4 * 1024 * 1024
"""So many are kept as threads unpack at the same time, with smaller windows: a producer's default is 2 MB."""


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


def memory_for(codec: int, data: Buffer) -> int:
    """Return how much memory `unpack` takes at most for these bytes; what they unpack to is not kept.

    What it says of bytes that are not of that codec does not matter: they are refused at once.
    """
    if codec == LZ4 and len(data) > LZ4_BLOCK_SIZE_AT:
        return 3 * LZ4_BLOCK_BYTES.get(data[LZ4_BLOCK_SIZE_AT] >> 4 & 0b111, 0) + LEAST_MEMORY_BYTES
    if codec == ZSTD:
        return _zstd_window_bytes(data) + LEAST_MEMORY_BYTES
    if codec == SNAPPY:
        return MOST_SNAPPY_RATIO * len(data) + LEAST_MEMORY_BYTES
    return LEAST_MEMORY_BYTES


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

    # To make one takes longer than to unpack a few kilobytes. It keeps the largest window that it has seen.
    decompressor = _spare_decompressors.pop() if _spare_decompressors else None
    if decompressor is None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES)
    try:
        unpacker = decompressor.decompressobj()
        for step in _zstd_steps(view, zstandard.frame_header_size(view)):
            yield unpacker.decompress(step)
            if unpacker.eof:
                return
    finally:
        if len(_spare_decompressors) < SPARE_DECOMPRESSORS and _has_small_window(view):
            _spare_decompressors.append(decompressor)
    raise CorruptBatch("the zstd frame ends early")


def _has_small_window(frame: memoryview) -> bool:
    """Whether a frame that was unpacked has a window of `SPARE_WINDOW_BYTES` (RFC 8878, section 3.1.1.1)."""
    if len(frame) <= ZSTD_WINDOW_AT or frame[ZSTD_WINDOW_AT - 1] & ZSTD_SINGLE_SEGMENT:
        return _zstd_window_bytes(frame) <= SPARE_WINDOW_BYTES
    return 1 << ZSTD_LEAST_WINDOW_LOG + (frame[ZSTD_WINDOW_AT] >> 3) < SPARE_WINDOW_BYTES


def _zstd_window_bytes(data: Buffer) -> int:
    import zstandard

    try:
        window_bytes = zstandard.get_frame_parameters(bytes(data[:ZSTD_MOST_HEAD_BYTES])).window_size
    except zstandard.ZstdError:
        return 0
    return min(window_bytes, MAX_ZSTD_WINDOW_BYTES)


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

    length = _snappy_length(block)
    if already_bytes + length > max_bytes:
        raise _too_large(max_bytes)
    if length > MOST_SNAPPY_RATIO * len(block):
        raise CorruptBatch(f"{len(block)} bytes of snappy cannot unpack to {length}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _snappy_length(block: memoryview) -> int:
    length = 0
    for index, byte in enumerate(block[:MAX_SNAPPY_PREAMBLE_BYTES]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return length
    raise CorruptBatch("a snappy block has no length")


_CODECS: dict[int, Callable[[memoryview, int], Iterator[bytes]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
