"""lz4 frames of message format 0: the checksum of the head as clients before Kafka 0.10 compute it."""

from __future__ import annotations

import lz4.frame
import pytest

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.compression import compress, unpack
from tidelog.plugins.compression.lz4 import xxhash_32

LZ4 = 3
HEAD_OF_KAFKA_0_9 = bytes.fromhex("04224d1860401a")
HEAD_OF_KAFKA_0_10 = bytes.fromhex("04224d18604082")
"""Heads that Apache Kafka's own classes write."""


def test_xxhash_32_is_that_of_the_heads_of_kafka() -> None:
    assert xxhash_32(HEAD_OF_KAFKA_0_9[:-1]) >> 8 & 0xFF == HEAD_OF_KAFKA_0_9[-1]
    assert xxhash_32(HEAD_OF_KAFKA_0_10[4:-1]) >> 8 & 0xFF == HEAD_OF_KAFKA_0_10[-1]


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_xxhash_32_of_known_inputs(data: bytes, expected: int) -> None:
    assert xxhash_32(data) == expected


@for_each("store_size", [True, False])
@for_each("magic", [0, 1, 2])
def test_unpack_reads_a_frame_of_liblz4_in_every_format(magic: int, *, store_size: bool) -> None:
    frame = lz4.frame.compress(b"content" * 1000, block_linked=False, store_size=store_size)
    assert b"".join(unpack(LZ4, frame, 10_000, magic=magic)) == b"content" * 1000


def test_compress_for_format_0_hashes_the_magic_as_well() -> None:
    old, new = compress(LZ4, b"content", magic=0), compress(LZ4, b"content", magic=1)
    assert old[6] == xxhash_32(old[:6]) >> 8 & 0xFF
    assert old[:6] + old[7:] == new[:6] + new[7:]
    assert old[6] != new[6]


def test_unpack_takes_the_old_checksum_in_format_0_alone() -> None:
    old = compress(LZ4, b"content" * 10_000, magic=0)
    assert b"".join(unpack(LZ4, old, 70_000, magic=0)) == b"content" * 10_000
    for magic in (1, 2):
        with pytest.raises(CorruptBatch, match="not valid lz4"):
            list(unpack(LZ4, old, 70_000, magic=magic))


@for_each("size", range(7))
def test_unpack_refuses_a_frame_of_format_0_that_ends_in_its_head(size: int) -> None:
    with pytest.raises(CorruptBatch, match="lz4"):
        list(unpack(LZ4, HEAD_OF_KAFKA_0_9[:size], 100, magic=0))
