from __future__ import annotations

import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from benchmarks.load.raw_batch import SequencePatcher, encode_batch, records_per_batch

VALUES = [b"first", b"second", b"third"]
BATCH = encode_batch(VALUES, producer_id=77, producer_epoch=3)
BEFORE = b"the request's own bytes"
AFTER = b"\0\0"


@given(st.integers(min_value=0, max_value=2**40))
def test_the_crc_follows_the_sequence(sequence: int) -> None:
    frame = bytearray(BEFORE + BATCH + AFTER)
    patcher = SequencePatcher(frame, len(BEFORE), len(BATCH))
    patcher.patch(12_345)
    patcher.patch(sequence)
    batch = bytes(frame[len(BEFORE) : -len(AFTER)])
    crc, *_, base_sequence = struct.unpack_from(">Ihiqqqhi", batch, 17)
    assert base_sequence == sequence % 2**31
    assert crc == crc32c.crc32c(batch[21:])
    assert frame[: len(BEFORE)] == BEFORE
    assert frame[-len(AFTER) :] == AFTER


def test_sequence_zero_gives_back_the_batch() -> None:
    frame = bytearray(BATCH)
    patcher = SequencePatcher(frame, 0, len(BATCH))
    patcher.patch(99)
    assert frame != BATCH
    patcher.patch(0)
    assert frame == BATCH


def test_another_codec_reads_the_batch() -> None:
    batch = read_batch(BATCH, 0)[0]
    assert [record.value for record in batch.records] == VALUES
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 0)


@pytest.mark.parametrize("value_bytes", [100, 1_000])
@pytest.mark.parametrize("batch_bytes", [16_384, 1_000_000])
def test_a_batch_is_full_and_no_larger_than_asked_for(value_bytes: int, batch_bytes: int) -> None:
    count = records_per_batch(value_bytes, batch_bytes)
    length = len(encode_batch([bytes(value_bytes)] * count, 1, 0))
    assert batch_bytes - value_bytes - 100 - 2 * count < length <= batch_bytes
