"""The codec zstd, with zstandard (RFC 8878)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.compression import LEAST_MEMORY_BYTES, Buffer, CompressionCodec
from tidelog.plugins.compression.keys import DEFAULT_ZSTD_LEVEL, TOPIC_ZSTD_LEVEL

STEP_BYTES = 64
"""Compressed bytes per call, rounded up to the end of a block: this library takes no limit on its output, but
each block, of four bytes at least, decompresses to 128 KB at most."""
MOST_HEAD_BYTES = 18
WINDOW_AT = 5
SINGLE_SEGMENT = 0x20
LEAST_WINDOW_LOG = 10
BLOCK_HEAD_BYTES = 3
REPEATED_BYTE = 1
"""The type of a block that holds a single byte, whatever its size says."""
LAST_BLOCK = 1
MOST_BLOCKS_AT_ONCE = 64
DESCRIPTOR_AT = 4
CHECKSUM_FLAG = 0x04
CHECKSUM_BYTES = 4
MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""The limit of the library that Apache Kafka uses."""
SPARE_DECOMPRESSORS = 4
SPARE_WINDOW_BYTES = 4 * 1024 * 1024
"""As many decompressors are kept as threads decompress at the same time, with windows up to this size: a
producer's default is 2 MB."""

_spare_decompressors: list[Any] = []


class ZstdCodec(CompressionCodec):
    """One zstd frame.

    Apache Kafka's library reads several, and refuses anything else that follows: here both are refused.
    """

    id = 4
    name = "zstd"
    library = "zstandard"
    level_key = TOPIC_ZSTD_LEVEL

    def memory_for(self, data: Buffer) -> int:
        """Return the size of the window, and a piece; see `CompressionCodec.memory_for`."""
        return _window_bytes(data) + LEAST_MEMORY_BYTES

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form; see `CompressionCodec.pack`."""
        import zstandard

        packer = zstandard.ZstdCompressor(DEFAULT_ZSTD_LEVEL if level is None else level).compressobj()
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records; see `CompressionCodec.unpack`."""
        import zstandard

        decompressor = _spare_decompressor()
        left = len(data)
        try:
            unpacker = decompressor.decompressobj()
            for step in _steps(data, zstandard.frame_header_size(data)):
                yield unpacker.decompress(step)
                left -= len(step)
                if unpacker.eof:
                    break
            else:
                raise CorruptBatch("the zstd frame ends early")
            if left or unpacker.unused_data:
                raise CorruptBatch("bytes follow the zstd frame")
        finally:
            _keep_spare(decompressor, data)

    def unpack_at_once(self, data: memoryview, most_bytes: int) -> bytes | None:
        """Return all decompressed records; see `CompressionCodec.unpack_at_once`."""
        import zstandard

        # The library allocates memory for the size that the frame says, and looks at nothing else if it is 0.
        if zstandard.frame_content_size(data) > most_bytes or not _is_one_frame(data):
            return None
        decompressor = _spare_decompressor()
        try:
            records: bytes = decompressor.decompress(data, max_output_size=most_bytes)
        finally:
            _keep_spare(decompressor, data)
        return records


def _spare_decompressor() -> Any:
    """Return one that was used, or a new one."""
    import zstandard

    # Creating one takes longer than decompressing a few kilobytes. It keeps the largest window so far.
    if _spare_decompressors:
        return _spare_decompressors.pop()
    return zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)


def _keep_spare(decompressor: Any, frame: memoryview) -> None:
    if len(_spare_decompressors) < SPARE_DECOMPRESSORS and _has_small_window(frame):
        _spare_decompressors.append(decompressor)


def _has_small_window(frame: memoryview) -> bool:
    """Return whether a decompressed frame has a small window (RFC 8878, section 3.1.1.1)."""
    if len(frame) <= WINDOW_AT or frame[WINDOW_AT - 1] & SINGLE_SEGMENT:
        return _window_bytes(frame) <= SPARE_WINDOW_BYTES
    return 1 << LEAST_WINDOW_LOG + (frame[WINDOW_AT] >> 3) < SPARE_WINDOW_BYTES


def _window_bytes(data: Buffer) -> int:
    import zstandard

    try:
        window_bytes = zstandard.get_frame_parameters(bytes(data[:MOST_HEAD_BYTES])).window_size
    except zstandard.ZstdError:
        return 0
    return min(window_bytes, MAX_WINDOW_BYTES)


def _is_one_frame(data: memoryview) -> bool:
    """Return whether a frame of few blocks ends where the data does (RFC 8878, section 3.1.1)."""
    import zstandard

    position = zstandard.frame_header_size(data)
    for _ in range(MOST_BLOCKS_AT_ONCE):
        head = int.from_bytes(data[position : position + BLOCK_HEAD_BYTES], "little")
        one_byte = head >> 1 & 0b11 == REPEATED_BYTE
        position += BLOCK_HEAD_BYTES + (1 if one_byte else head >> 3)
        if head & LAST_BLOCK:
            has_checksum = data[DESCRIPTOR_AT] & CHECKSUM_FLAG
            return position + (CHECKSUM_BYTES if has_checksum else 0) == len(data)
    return False


def _steps(view: memoryview, head_bytes: int) -> Iterator[memoryview]:
    """Split a frame at the ends of blocks (RFC 8878, section 3.1.1.2)."""
    start, position = 0, head_bytes
    while position < len(view):
        head = int.from_bytes(view[position : position + BLOCK_HEAD_BYTES], "little")
        one_byte = head >> 1 & 0b11 == REPEATED_BYTE
        position += BLOCK_HEAD_BYTES + (1 if one_byte else head >> 3)
        if position - start >= STEP_BYTES:
            yield view[start:position]
            start = position
    yield view[start:]
