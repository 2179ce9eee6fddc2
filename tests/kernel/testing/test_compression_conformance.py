"""The suite of compression codecs finds each wrong one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

import pytest

from tidelog.kernel.records.compression import register_codecs
from tidelog.kernel.seams.compression import Buffer, CompressionCodec
from tidelog.kernel.testing.compression import CONTENTS
from tidelog.kernel.testing.compression import CompressionCodecConformance as Suite

PIECE_BYTES = 64 * 1024


class Deflate(CompressionCodec):
    """A right codec."""

    id = 6
    name = "deflate"

    def memory_for(self, data: Buffer) -> int:
        return 1024 * 1024

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        packer = zlib.compressobj()
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        unpacker = zlib.decompressobj()
        packed: bytes | memoryview = data
        while not unpacker.eof:
            piece = unpacker.decompress(packed, PIECE_BYTES)
            packed = unpacker.unconsumed_tail
            if not piece and not packed and not unpacker.eof:
                raise EOFError("the stream ends early")
            yield piece


class LosesTheLastPiece(Deflate):
    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        return super().pack(list(pieces)[:-1], level)


class PacksEachPieceAlone(Deflate):
    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        return (zlib.compress(piece) for piece in pieces)


class TakesWhatIsThere(Deflate):
    """Returns a part of a stream that was cut off."""

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        yield zlib.decompressobj().decompress(data)


class UnpacksAtOnce(Deflate):
    """One piece of any size."""

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        yield b"".join(super().unpack(data, max_bytes))


class TooFarAnId(Deflate):
    id = 8


class Reorders(Deflate):
    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        return iter(list(super().unpack(data, max_bytes))[::-1])


def deflate_of(kind: type[Deflate]) -> Deflate:
    codec = kind()
    if codec.id <= 7:
        register_codecs([codec])
    return codec


WRONG: dict[type[Deflate], Callable[[Deflate], None]] = {
    LosesTheLastPiece: lambda codec: Suite().test_pack_takes_pieces_of_any_size(codec),
    PacksEachPieceAlone: lambda codec: Suite().test_pack_takes_pieces_of_any_size(codec),
    TakesWhatIsThere: lambda codec: Suite().test_unpack_refuses_bytes_that_end_early(codec),
    UnpacksAtOnce: lambda codec: Suite().test_no_piece_is_larger_than_the_memory_that_it_says(codec),
    TooFarAnId: lambda codec: Suite().test_id_fits_the_attributes_of_a_batch(codec),
    Reorders: lambda codec: Suite().test_unpack_returns_what_was_packed(codec, CONTENTS[3], 2),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_compression_conformance_finds_a_wrong_codec(wrong: type[Deflate]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        WRONG[wrong](deflate_of(wrong))
    WRONG[wrong](deflate_of(Deflate))
