"""Producer snapshots: the layout byte by byte, there and back, and content that is not what was written."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.log.producer_state_manager import ProducerStateManager
from tidelog.kernel.log.producers import ProducerEntry, SentBatch
from tidelog.kernel.log.side_writes import SideWrites
from tidelog.kernel.log.snapshots import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
    snapshot_offsets,
)

from .parts import new_store

SEQUENCES = 2**31


def an_entry(*batches: SentBatch, epoch: int = 0, timestamp: int = 1000) -> ProducerEntry:
    """State of a producer that sent these batches."""
    entry = ProducerEntry(epoch, last_timestamp=timestamp)
    entry.batches.extend(batches)
    return entry


@st.composite
def entries(draw: st.DrawFn) -> ProducerEntry:
    """Any producer with the one batch that a snapshot keeps, or none."""
    timestamp = draw(st.integers(-1, 2**62))
    entry = ProducerEntry(
        draw(st.integers(0, 2**15 - 1)),
        last_timestamp=timestamp,
        coordinator_epoch=draw(st.integers(-1, 2**31 - 1)),
        current_txn_first_offset=draw(st.integers(-1, 2**62)),
    )
    if draw(st.booleans()):
        first, count = draw(st.integers(0, SEQUENCES - 1)), draw(st.integers(1, 1000))
        offset = draw(st.integers(0, 2**62))
        last = (first + count - 1) % SEQUENCES
        entry.batches.append(SentBatch(first, last, offset, offset + count - 1, timestamp))
    return entry


tables = st.dictionaries(st.integers(0, 2**63 - 1), entries(), max_size=5)


def test_encode_snapshot_writes_the_layout_of_kafka() -> None:
    content = encode_snapshot({4711: an_entry(SentBatch(10, 14, 100, 104, 1234), epoch=7, timestamp=1234)})
    expected_body = bytes.fromhex(
        "00000001"  # entries
        "0000000000001267"  # producer id
        "0007"  # producer epoch
        "0000000e"  # last sequence
        "0000000000000068"  # last offset
        "00000004"  # offset delta
        "00000000000004d2"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # first offset of the current transaction
    )
    assert content == b"\x00\x01" + struct.pack(">I", crc32c(expected_body)) + expected_body


def test_encode_snapshot_without_producers_counts_0_entries() -> None:
    body = bytes(4)
    assert encode_snapshot({}) == b"\x00\x01" + struct.pack(">I", crc32c(body)) + body


def test_encode_snapshot_keeps_only_the_newest_batch_of_a_producer() -> None:
    sent = [SentBatch(index, index, 100 + index, 100 + index, 1000) for index in range(5)]
    decoded = decode_snapshot(encode_snapshot({1: an_entry(*sent)}))
    assert list(decoded[1].batches) == sent[-1:]


def test_decode_snapshot_restores_a_batch_whose_sequences_wrapped() -> None:
    sent = SentBatch(SEQUENCES - 2, 1, 100, 103, 1000)
    assert decode_snapshot(encode_snapshot({1: an_entry(sent)})) == {1: an_entry(sent)}


@given(tables)
def test_decode_snapshot_reads_back_what_encode_snapshot_wrote(table: dict[int, ProducerEntry]) -> None:
    content = encode_snapshot(table)
    assert len(content) == 10 + 46 * len(table)
    assert decode_snapshot(content) == table
    assert encode_snapshot(decode_snapshot(content)) == content


WHOLE = encode_snapshot({index: an_entry(SentBatch(0, 4, 0, 4, 1000)) for index in range(2)})


@for_each("at", range(len(WHOLE)))
def test_decode_snapshot_detects_a_flipped_bit_anywhere(at: int) -> None:
    for bit in range(8):
        content = bytearray(WHOLE)
        content[at] ^= 1 << bit
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(content))


@for_each("size", range(len(WHOLE)))
def test_decode_snapshot_detects_missing_bytes(size: int) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(WHOLE[:size])


def with_crc(body: bytes, version: int = 1) -> bytes:
    """A snapshot of that body whose CRC is right."""
    return struct.pack(">hI", version, crc32c(body)) + body


@for_each(
    "content",
    [
        with_crc(b""),
        with_crc(struct.pack(">i", 1)),
        with_crc(struct.pack(">i", -1)),
        with_crc(struct.pack(">i", 2**31 - 1)),
        with_crc(struct.pack(">i", 0) + bytes(46)),
        with_crc(struct.pack(">i", 1) + bytes(47)),
        with_crc(bytes(4), version=0),
        with_crc(bytes(4), version=2),
        WHOLE + b"\0",
        bytes(100),
    ],
)
def test_decode_snapshot_refuses_wrong_lengths_and_versions(content: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(content)


@given(st.binary(max_size=120), st.booleans())
def test_decode_snapshot_of_any_bytes_returns_entries_or_raises_corrupt_snapshot(
    content: bytes, right_crc: bool
) -> None:
    with suppress(CorruptSnapshot):
        decode_snapshot(with_crc(content) if right_crc else content)


def test_snapshot_offsets_reads_snapshot_name_and_ignores_other_files() -> None:
    assert snapshot_name(147001) == "00000000000000147001.snapshot"
    names = [
        "00000000000000147001.snapshot",
        "leader-epoch-checkpoint",
        "00000000000000000007.snapshot",
        "00000000000000000003.log",
        "x.snapshot",
        ".snapshot",
        "-1.snapshot",
        "00000000000000000009.snapshot.deleted",
    ]
    assert snapshot_offsets(names) == [7, 147001]


LARGEST = 2**63 - 1


@for_each(
    ("bounds", "left"),
    [
        ({}, [0, 1, 3, 7, 9, LARGEST]),
        ({"below": 0}, [0, 1, 3, 7, 9, LARGEST]),
        ({"below": 6}, [3, 7, 9, LARGEST]),
        ({"below": 7}, [7, 9, LARGEST]),
        ({"below": 8}, [7, 9, LARGEST]),
        ({"above": LARGEST - 1}, [0, 1, 3, 7, 9]),
        ({"above": 7}, [0, 1, 3, 7]),
        ({"above": 6}, [0, 1, 3]),
        ({"below": 4, "above": 8}, [3, 7]),
    ],
)
def test_remove_snapshots_below_and_above_bounds_keeps_the_newest_below(
    bounds: dict[str, int], left: list[int]
) -> None:
    store = new_store()
    for offset in (0, 1, 3, 7, 9, LARGEST):
        store.write_side_file(snapshot_name(offset), b"")
    side_writes = SideWrites(store, lambda _, job: None)
    ProducerStateManager("topic-0", store, side_writes).remove_snapshots(**bounds)
    assert snapshot_offsets(store.side_files()) == left
