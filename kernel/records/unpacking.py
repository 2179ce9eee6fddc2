"""Decompression of the records of batches, piece by piece, with a bound on the decompressed size.

A caller that iterates over the records holds one piece at a time; `decompress` returns all of them. Codec ids
and framings are described in `compression`. The libraries are imported at first use: a broker that never
decompresses a batch never loads them.
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
"""Decompressed bytes per call, for libraries that take such a limit; small enough for a processor's cache."""
GZIP_PIECE_BYTES = 32 * 1024
"""The same for gzip, the slowest library, which takes as long for these as others for `PIECE_BYTES`."""
PACKED_STEP_BYTES = 64 * 1024
"""Compressed bytes per call: these libraries copy the input that they have not consumed, at every call."""
UNPACKED_PIECE_BYTES = 1024 * 1024
"""Size of a piece of records that are not compressed."""
ZSTD_STEP_BYTES = 64
"""Compressed bytes per call, rounded up to the end of a block: this library takes no limit on its output, but
each block, of four bytes at least, decompresses to 128 KB at most."""
ZSTD_MOST_HEAD_BYTES = 18
ZSTD_WINDOW_AT = 5
ZSTD_SINGLE_SEGMENT = 0x20
ZSTD_LEAST_WINDOW_LOG = 10
ZSTD_BLOCK_HEAD_BYTES = 3
ZSTD_REPEATED_BYTE = 1
"""The type of a block that holds a single byte, whatever its size says."""
MAX_SNAPPY_PREAMBLE_BYTES = 5
EMPTY_BLOCKS_PER_STEP = 64
"""Empty blocks that are skipped in one step."""
SNAPPY, LZ4, ZSTD = 2, 3, 4
MOST_SNAPPY_RATIO = 22
"""Three bytes of a snappy block decompress to 64 at most."""
LZ4_BLOCK_SIZE_AT = 5
LZ4_BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
LEAST_MEMORY_BYTES = 512 * 1024
"""Memory for a piece or two, and for the library itself."""
MAX_ZSTD_WINDOW_BYTES = 128 * 1024 * 1024
"""The limit of the library that Apache Kafka uses."""
SPARE_DECOMPRESSORS = 4
SPARE_WINDOW_BYTES = 4 * 1024 * 1024
"""As many decompressors are kept as threads decompress at the same time, with windows up to this size: a
producer's default is 2 MB."""


class UnpackedTooLarge(CorruptBatch):
    """The records decompress to more bytes than the caller accepts."""


def unpack(codec: int, data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """Iterate over the decompressed records in pieces, whose bounds need not be those of records.

    Raises:
        UnsupportedCompression: no such codec.
        UnpackedTooLarge: they decompress to more than `max_bytes`.
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
    """Return how many bytes of memory `unpack` takes at most for `data`, without the pieces it has returned.

    For bytes that are not of that codec any number may be returned: `unpack` refuses them at once.
    """
    if codec == LZ4 and len(data) > LZ4_BLOCK_SIZE_AT:
        return 3 * LZ4_BLOCK_BYTES.get(data[LZ4_BLOCK_SIZE_AT] >> 4 & 0b111, 0) + LEAST_MEMORY_BYTES
    if codec == ZSTD:
        return _zstd_window_bytes(data) + LEAST_MEMORY_BYTES
    if codec == SNAPPY:
        return MOST_SNAPPY_RATIO * len(data) + LEAST_MEMORY_BYTES
    return LEAST_MEMORY_BYTES


def in_pieces(data: Buffer) -> Iterator[bytes]:
    """Iterate over records that are not compressed in pieces, as `unpack` does."""
    for piece in _steps(memoryview(data), UNPACKED_PIECE_BYTES):
        yield bytes(piece)


def comes_in_pieces(codec: int) -> bool:
    """Return whether each piece is small; a snappy block may be as large as all records together."""
    return _CODECS.get(codec) is not _snappy


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """Return all decompressed records; raises as `unpack`."""
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

    # Creating one takes longer than decompressing a few kilobytes. It keeps the largest window so far.
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
    """Return whether a decompressed frame has a small window (RFC 8878, section 3.1.1.1)."""
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
    """Split a frame at the ends of blocks (RFC 8878, section 3.1.1.2)."""
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
