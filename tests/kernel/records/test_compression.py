"""The codecs of a process: registered by id, found by name, and bounded by those who use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records import compression
from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.records.compression import (
    LEAST_MEMORY_BYTES,
    CompressionCodec,
    UnpackedTooLarge,
    codec_named,
    compress,
    decompress,
    import_library,
    is_imported,
    is_registered,
    memory_for,
    offer_codecs,
    packs_quickly,
    register_codecs,
    registered_codecs,
    unpack,
)

TWICE = 7


class TwiceCodec(CompressionCodec):
    """Half of the bytes."""

    id = TWICE
    name = "twice"

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        for piece in pieces:
            yield bytes(piece[: len(piece) // 2])

    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        if bytes(data) == b"broken":
            raise ZeroDivisionError("nothing to divide")
        for byte in data:
            yield bytes([byte]) * 2

    def unpack_v0(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        yield b"old"


@pytest.fixture(autouse=True)
def own_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of this test alone."""
    monkeypatch.setattr(compression, "_codecs", {})
    monkeypatch.setattr(compression, "_offers", [])
    monkeypatch.setattr(compression, "_imported", set())
    register_codecs([TwiceCodec()])


def test_registered_codecs_are_used_for_their_ids() -> None:
    assert (is_registered(TWICE), is_registered(1)) == (True, False)
    assert [codec.name for codec in registered_codecs()] == ["twice"]
    assert codec_named("twice") is registered_codecs()[0]
    assert codec_named("gzip") is None
    assert compress(TWICE, b"abcd") == b"ab"
    assert decompress(TWICE, b"ab", 4) == b"aabb"
    assert list(unpack(TWICE, b"ab", 4, magic=0)) == [b"old"]


def test_register_codecs_replaces_one_of_the_same_id_unless_it_must_not() -> None:
    first, second = registered_codecs()[0], TwiceCodec()
    register_codecs([second], replace=False)
    assert registered_codecs() == (first,)
    register_codecs([second])
    assert registered_codecs() == (second,)


def test_unpack_counts_for_the_codec() -> None:
    pieces = unpack(TWICE, b"abc", 5)
    assert [next(pieces), next(pieces)] == [b"aa", b"bb"]
    with pytest.raises(UnpackedTooLarge, match="unpack to more than 5 bytes"):
        next(pieces)


def test_unpack_names_the_codec_whose_library_raises() -> None:
    with pytest.raises(CorruptBatch, match="not valid twice: nothing to divide"):
        list(unpack(TWICE, b"broken", 100))


class RoomyCodec(TwiceCodec):
    """Takes much memory, and a library."""

    id = 6
    name = "roomy"
    library = "no_such_library"

    def packs_quickly(self, level: int | None) -> bool:
        return True

    def memory_for(self, data: Buffer) -> int:
        return 5 * len(data)


def test_a_codec_that_is_only_offered_says_how_much_memory_it_takes() -> None:
    offer_codecs(lambda: [RoomyCodec()])
    assert memory_for(RoomyCodec.id, b"data") == 20
    assert packs_quickly(RoomyCodec.id, None)
    assert not is_imported(RoomyCodec.id)


def test_is_imported_looks_again_once_a_codec_is_registered() -> None:
    assert is_imported(RoomyCodec.id)
    with pytest.raises(UnsupportedCompression):
        import_library(RoomyCodec.id)
    codec = TwiceCodec()
    codec.id = RoomyCodec.id
    register_codecs([codec])
    assert is_imported(RoomyCodec.id)
    register_codecs([RoomyCodec()])
    assert not is_imported(RoomyCodec.id)


@pytest.mark.parametrize("codec", [-1, 0, 1, 6])
def test_an_unknown_codec_is_refused_with_the_installed_ones(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=f"codec {codec} is unknown; installed are: 7 twice"):
        list(unpack(codec, b"data", 100))
    if codec:
        with pytest.raises(UnsupportedCompression, match="7 twice"):
            compress(codec, b"data")
    assert memory_for(codec, b"data") == LEAST_MEMORY_BYTES
    assert packs_quickly(codec, None) == (codec == 0)


def test_compress_with_codec_0_copies() -> None:
    assert compress(0, bytearray(b"as it is")) == b"as it is"
