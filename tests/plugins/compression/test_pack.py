"""What is compressed here is what Kafka's readers take, and comes back as it was."""

from __future__ import annotations

import gzip
import os
import struct
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import UnsupportedCompression
from tidelog.kernel.records.compression import compress, decompress
from tidelog.plugins.compression import kafka_codecs

GZIP = 1
PACKING_CODECS = [codec.id for codec in kafka_codecs()]


@pytest.mark.parametrize("codec", PACKING_CODECS)
@given(data=st.binary(max_size=2000))
def test_unpacking_gives_back_what_was_packed(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, compress(codec, bytearray(data)), len(data)) == data


@pytest.mark.parametrize("codec", PACKING_CODECS)
def test_more_than_one_block_comes_back(codec: int) -> None:
    data = os.urandom(100_000) + bytes(200_000)
    assert decompress(codec, compress(codec, memoryview(data)), len(data)) == data


def test_no_compression_copies() -> None:
    assert compress(0, bytearray(b"as it is")) == b"as it is"


def test_snappy_has_the_java_librarys_framing() -> None:
    packed = compress(2, bytes(70_000))
    assert packed.startswith(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))


def test_compress_writes_independent_lz4_blocks() -> None:
    assert not lz4.frame.get_frame_info(compress(3, bytes(200_000)))["block_linked"]


LIKE_RECORDS = b"".join(
    b'{"ts":%d,"carrier":"%c","id":"%x"}' % (1_700_000_000_000 + 977 * number, 65 + number % 9, number**7)
    for number in range(2_000)
)


@for_each("level", [-1, *range(1, 10)])
def test_gzip_of_a_level_is_as_small_as_that_of_zlib(level: int) -> None:
    packed = compress(GZIP, LIKE_RECORDS, level)
    assert gzip.decompress(packed) == LIKE_RECORDS
    packer = zlib.compressobj(level, wbits=31)
    expected = packer.compress(LIKE_RECORDS) + packer.flush()
    assert len(packed) < len(expected) * 1.04
    if level == -1:
        assert compress(GZIP, LIKE_RECORDS) == packed == compress(GZIP, LIKE_RECORDS, 6)


@for_each(
    ("name", "level", "quickly"),
    [
        ("gzip", None, True),
        ("gzip", -1, True),
        ("gzip", 6, True),
        ("gzip", 7, False),
        ("snappy", None, True),
        ("lz4", 9, True),
        ("lz4", 10, False),
        ("zstd", None, False),
    ],
)
def test_packs_quickly_up_to_a_level(name: str, level: int | None, quickly: bool) -> None:
    codec = next(codec for codec in kafka_codecs() if codec.name == name)
    assert codec.packs_quickly(level) == quickly


@pytest.mark.parametrize("codec", [5, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=str(codec)):
        compress(codec, b"")
