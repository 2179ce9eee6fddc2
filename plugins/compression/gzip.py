"""The codec gzip, with zlib-ng: one member (RFC 1952) or several, as the Java library reads them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, cast

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.compression import Buffer, CompressionCodec, steps_of
from tidelog.plugins.compression.keys import DEFAULT_GZIP_LEVEL, TOPIC_GZIP_LEVEL

GZIP_WINDOW_BITS = 31
"""A deflate window of 32 KB, and the head and end of gzip."""
MAGIC = b"\x1f\x8b\x08"
LEAST_MEMBER_BYTES = 18
GZIP_PIECE_BYTES = 32 * 1024
"""Decompressed bytes per call; the slowest library takes as long for these as others for 128 KB."""
PACKED_STEP_BYTES = 64 * 1024
ZLIB_NG_LEVELS: Final = {1: 2, 9: 8}
"""The levels of zlib-ng to take for those of zlib: its own level 1 leaves a quarter more bytes than zlib's,
its level 9 often more than its level 8."""
SLOWEST_QUICK_LEVEL = 6
"""Its further levels take two to four times as long."""


class GzipCodec(CompressionCodec):
    """gzip, RFC 1952."""

    id = 1
    name = "gzip"
    library = "zlib_ng.zlib_ng"
    level_key = TOPIC_GZIP_LEVEL

    def packs_quickly(self, level: int | None) -> bool:
        """Return whether 16 KB take some 0.1 ms; see `CompressionCodec.packs_quickly`."""
        return level is None or level <= SLOWEST_QUICK_LEVEL

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form; see `CompressionCodec.pack`."""
        chosen = DEFAULT_GZIP_LEVEL if level is None else ZLIB_NG_LEVELS.get(level, level)
        packer = _zlib_ng().compressobj(chosen, wbits=GZIP_WINDOW_BITS)
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records; see `CompressionCodec.unpack`."""
        left = yield from _unpack_member(data)
        # What follows and is no member is ignored.
        while len(left) >= LEAST_MEMBER_BYTES and bytes(left[: len(MAGIC)]) == MAGIC:
            # A step for each member: very many that are empty would otherwise be one long step.
            yield b""
            left = yield from _unpack_member(left)

    def unpack_at_once(self, data: memoryview, most_bytes: int) -> bytes | None:
        """Return all decompressed records; see `CompressionCodec.unpack_at_once`."""
        unpacker = _zlib_ng().decompressobj(GZIP_WINDOW_BITS)
        records: bytes = unpacker.decompress(data, most_bytes)
        return records if unpacker.eof and not unpacker.unused_data else None


def _unpack_member(data: memoryview) -> Generator[bytes, None, memoryview]:
    """Iterate over what the member that `data` begins with decompresses to; return what follows it.

    Raises:
        CorruptBatch: it ends early.
    """
    unpacker = _zlib_ng().decompressobj(GZIP_WINDOW_BITS)
    after = 0
    for step in steps_of(data, PACKED_STEP_BYTES):
        after += len(step)
        packed: Buffer = step
        while not unpacker.eof and (piece := unpacker.decompress(packed, GZIP_PIECE_BYTES)):
            yield piece
            packed = unpacker.unconsumed_tail
        if unpacker.eof:
            return data[after - len(unpacker.unused_data) :]
    raise CorruptBatch("the gzip stream ends early")


def _zlib_ng() -> Any:
    """Return the library, which does not annotate its arguments."""
    from zlib_ng import zlib_ng

    return cast("Any", zlib_ng)
