"""Compression codecs: what any client's library packs is unpacked, bombs are bounded, nonsense is corrupt."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.compression import (
    LEAST_MEMORY_BYTES,
    compress,
    decompress,
    memory_for,
    unpack,
    unpack_at_once,
)
from tidelog.plugins.compression import zstd

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
MIB = 1024 * 1024
RANDOM = random.Random(7).randbytes(200_000)
TEXT = b"the quick brown fox jumps over the lazy dog " * 2_000


def raw_snappy(data: bytes) -> bytes:
    """One snappy block without any framing."""
    return bytes(cramjam.snappy.compress_raw(data))


def xerial_snappy(data: bytes, block_bytes: int = 32 * 1024) -> bytes:
    """The framing of the Java library: a head of 16 bytes, then blocks with their length."""
    out = bytearray(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), block_bytes):
        block = raw_snappy(data[start : start + block_bytes])
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def streamed_zstd(data: bytes) -> bytes:
    """A frame that does not tell its content's size, as the Java client writes it."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


def chopped_zstd(data: bytes) -> bytes:
    """A frame of many small blocks, with a checksum behind them."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    blocks = []
    for start in range(0, len(data), 50):
        blocks += [packer.compress(data[start : start + 50]), packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    return b"".join(blocks) + packer.flush()


def linked_lz4(data: bytes) -> bytes:
    """Blocks that refer to each other, with checksums of blocks and content."""
    packed: bytes = lz4.frame.compress(
        data, block_linked=True, block_checksum=True, content_checksum=True, store_size=False
    )
    return packed


def plain_lz4(data: bytes) -> bytes:
    """Independent blocks, as the Java client writes them."""
    packed: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
    return packed


Pack = Callable[[bytes], bytes]
PACKERS: dict[str, tuple[int, Pack]] = {
    "gzip": (GZIP, gzip.compress),
    "raw snappy": (SNAPPY, raw_snappy),
    "xerial snappy": (SNAPPY, xerial_snappy),
    "lz4": (LZ4, plain_lz4),
    "linked lz4": (LZ4, linked_lz4),
    "zstd": (ZSTD, zstandard.ZstdCompressor().compress),
    "streamed zstd": (ZSTD, streamed_zstd),
    "chopped zstd": (ZSTD, chopped_zstd),
}

each_packer = pytest.mark.parametrize(("codec", "pack"), PACKERS.values(), ids=PACKERS)


@each_packer
@pytest.mark.parametrize("data", [b"", b"x", TEXT, RANDOM], ids=["empty", "one", "text", "random"])
def test_decompress_reads_what_client_libraries_compress(codec: int, pack: Pack, data: bytes) -> None:
    assert decompress(codec, pack(data), len(data)) == data
    assert decompress(codec, memoryview(bytearray(pack(data))), MIB) == data


@for_each("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
@for_each("data", [b"", b"x", TEXT, RANDOM], ids=["empty", "one", "text", "random"])
def test_decompress_reads_what_compress_wrote(codec: int, data: bytes) -> None:
    packed = compress(codec, data)
    assert packed == data if codec == 0 else decompress(codec, packed, len(data)) == data


@each_packer
def test_decompress_enforces_max_bytes_exactly(codec: int, pack: Pack) -> None:
    packed = pack(TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatch, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(codec, packed, len(TEXT) - 1)


@each_packer
def test_decompress_refuses_data_that_is_cut_anywhere(codec: int, pack: Pack) -> None:
    packed = pack(TEXT)
    cuts = {*range(min(40, len(packed))), *range(0, len(packed), 97), *range(len(packed) - 20, len(packed))}
    for cut in sorted(cuts & set(range(len(packed)))):
        if codec == SNAPPY and _ends_at_a_block(packed, cut):
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:cut], MIB)


def _ends_at_a_block(packed: bytes, cut: int) -> bool:
    """Xerial framing has no end mark: a cut between two blocks cannot be told from the end.

    Nor one in the length of a block.
    """
    at = 16
    while at + 4 <= min(cut, len(packed)):
        at += 4 + int(struct.unpack_from(">i", packed, at)[0])
    return packed.startswith(b"\x82SNAPPY") and 0 <= cut - at < 4


def gzip_bomb() -> bytes:
    """1 GiB in 1 MiB."""
    packer = zlib.compressobj(9, wbits=31)
    head = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + 1023 * block


def zstd_bomb() -> bytes:
    """1 GiB in 32 KiB."""
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(bytes(MIB)) for _ in range(1024)) + packer.flush()


def lz4_bomb() -> bytes:
    """1 GiB in 4 MiB: as far as this codec goes."""
    packer = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    head = packer.begin()
    return b"".join([head, *(packer.compress(bytes(4 * MIB)) for _ in range(256)), packer.flush()])


def snappy_bomb() -> bytes:
    """A raw block of a few bytes that claims to hold 1 GiB."""
    return bytes.fromhex("8080808004") + b"\0" + bytes(100)


def xerial_bomb() -> bytes:
    """Blocks that are within the limit each, but not together."""
    block = raw_snappy(bytes(MIB))
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 1024


BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip": (GZIP, gzip_bomb),
    "raw snappy": (SNAPPY, snappy_bomb),
    "xerial snappy": (SNAPPY, xerial_bomb),
    "lz4": (LZ4, lz4_bomb),
    "zstd": (ZSTD, zstd_bomb),
}


@pytest.mark.parametrize(("codec", "make"), BOMBS.values(), ids=BOMBS)
def test_decompress_refuses_a_bomb_before_it_takes_memory(codec: int, make: Callable[[], bytes]) -> None:
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match=f"more than {8 * MIB} bytes"):
            decompress(codec, bomb, 8 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * MIB


@each_packer
def test_decompress_of_a_small_batch_takes_little_memory_with_a_high_limit(codec: int, pack: Pack) -> None:
    packed = pack(b"small")
    decompress(codec, packed, MIB)
    tracemalloc.start()
    try:
        decompress(codec, packed, 1024 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=b"\x82SNAPPY\x00")
@example(data=b"\x82SNAPPY\x00" + bytes(12))
@example(data=b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xff")
@example(data=b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xff")
@example(data=b"\x80" * 20)
@example(data=b"\x04\x22\x4d\x18" + b"\xff" * 20)
@example(data=b"\x28\xb5\x2f\xfd" + b"\xff" * 20)
@example(data=b"\x1f\x8b\x08" + b"\xff" * 20)
def test_decompress_of_any_bytes_raises_nothing_but_corrupt_batch(codec: int, data: bytes) -> None:
    try:
        unpacked = decompress(codec, data, 1000)
    except CorruptBatch:
        return
    assert len(unpacked) <= 1000


@each_packer
@given(at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_decompress_of_a_flipped_byte_is_corrupt_or_within_max_bytes(
    codec: int, pack: Pack, at: int, flip: int
) -> None:
    packed = bytearray(pack(TEXT[:5_000]))
    packed[at % len(packed)] ^= flip
    with suppress(CorruptBatch):
        assert len(decompress(codec, packed, 6_000)) <= 6_000


@pytest.mark.parametrize("codec", [0, 5, 6, 7])
def test_decompress_refuses_an_unknown_codec(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=f"codec {codec} "):
        decompress(codec, b"data", 100)


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_compress_refuses_an_unknown_codec(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=f"codec {codec} "):
        compress(codec, b"data")


@pytest.mark.parametrize(("window_log", "is_kept"), [(17, True), (21, True), (22, False), (27, False)])
def test_decompressors_with_large_windows_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, window_log: int, *, is_kept: bool
) -> None:
    spare: list[object] = []
    monkeypatch.setattr(zstd, "_spare_decompressors", spare)
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(bytes(100)) + packer.flush()
    assert b"".join(unpack(4, packed, 1000)) == bytes(100)
    assert bool(spare) is is_kept
    assert memory_for(4, packed) - LEAST_MEMORY_BYTES == 1 << window_log


def test_unpack_refuses_a_zstd_window_larger_than_kafka_allows() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(bytes(100)) + packer.flush()
    with pytest.raises(CorruptBatch):
        list(unpack(4, packed, 1000))


def test_unpack_refuses_a_snappy_block_that_claims_more_than_it_can_hold() -> None:
    claim = b"\xff\xff\xff\x7f" + bytes(20)
    with pytest.raises(CorruptBatch, match="cannot unpack to"):
        list(unpack(2, claim, 2**30))


# Something follows the compressed records; what is read then, as by Apache Kafka's libraries, or None.
FOLLOWED: dict[str, tuple[int, bytes, bytes | None]] = {
    "gzip, another member": (GZIP, gzip.compress(b"a") + gzip.compress(b"b"), b"ab"),
    "gzip, three members": (
        GZIP,
        gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"b"),
        TEXT + b"b",
    ),
    "gzip, no member": (GZIP, gzip.compress(b"a") + b"\x1f\x8b" + b"x" * 30, b"a"),
    "gzip, a short end": (GZIP, gzip.compress(b"a") + gzip.compress(b"b")[:17], b"a"),
    "gzip, half a member": (GZIP, gzip.compress(b"a") + gzip.compress(b"b")[:-1], None),
    "lz4": (LZ4, plain_lz4(b"a") + b"rest", b"a"),
    "xerial snappy, three bytes": (SNAPPY, xerial_snappy(b"a") + b"\0\0\1", b"a"),
    "zstd, a byte": (ZSTD, streamed_zstd(b"a") + b"\0", None),
    "zstd, many bytes": (ZSTD, streamed_zstd(TEXT) + RANDOM, None),
    "zstd, another frame": (ZSTD, streamed_zstd(b"a") + streamed_zstd(b"b"), None),  # Kafka's reads that
}


@for_each(("codec", "packed", "records"), FOLLOWED.values(), ids=FOLLOWED)
def test_what_follows_compressed_records(codec: int, packed: bytes, records: bytes | None) -> None:
    at_once = unpack_at_once(codec, packed, MIB)
    assert at_once in (None, records)
    if records is None:
        with pytest.raises(CorruptBatch):
            decompress(codec, packed, MIB)
    else:
        assert decompress(codec, packed, MIB) == records


def test_unpack_of_many_empty_gzip_members_takes_many_steps() -> None:
    packed = gzip.compress(b"") * 1000 + gzip.compress(b"a")
    assert [*unpack(GZIP, packed, MIB)] == [b""] * 1000 + [b"a"]


@for_each(("codec", "pack"), PACKERS.values(), ids=PACKERS)
@for_each("size", [0, 1, 1000, len(RANDOM)])
def test_unpack_at_once_returns_all_or_nothing(codec: int, pack: Pack, size: int) -> None:
    for data in (RANDOM[:size], TEXT[:size]):
        packed = pack(data)
        assert unpack_at_once(codec, packed, MIB) == (
            None if pack is chopped_zstd and size > 10_000 else data
        )
        assert unpack_at_once(codec, packed, len(data)) in (data, None)
        assert unpack_at_once(codec, packed, len(data) - 1) is None
        assert unpack_at_once(codec, packed[:-1], MIB) is None or (codec == SNAPPY and not size)


@for_each(("codec", "pack"), PACKERS.values(), ids=PACKERS)
def test_unpack_at_once_of_a_bomb_takes_little_memory(codec: int, pack: Pack) -> None:
    bomb = pack(bytes(64 * MIB))
    tracemalloc.start()
    try:
        assert unpack_at_once(codec, bomb, MIB // 4) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * MIB
