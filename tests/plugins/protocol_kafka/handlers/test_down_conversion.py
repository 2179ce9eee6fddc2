"""Message sets of formats 0 and 1, as other implementations read them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatch as OtherRecordBatch

from tidelog.kernel import pace
from tidelog.kernel.partition.unpacking import MemoryBudget
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.message_set import encode_message
from tidelog.kernel.records.record import Record
from tidelog.kernel.seams.storage import LogSlice
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.handlers.down_conversion import message_set

maybe_bytes = st.none() | st.binary(max_size=50)
records = st.builds(
    Record,
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(0, 2**62),
    key=maybe_bytes,
    value=maybe_bytes,
)

READERS: list[Callable[[bytes, int], Any]] = [LegacyRecordBatch, OtherRecordBatch]


def test_encode_message_with_magic_0_byte_by_byte() -> None:
    out = bytearray()
    encode_message(out, Record(7, 1000, b"k", None, [("lost", b"header")]), 0)
    body = bytes.fromhex("00 00 00000001 6b ffffffff")
    assert out == struct.pack(">qiI", 7, 4 + len(body), zlib.crc32(body)) + body


def test_encode_message_with_magic_1_byte_by_byte() -> None:
    out = bytearray()
    encode_message(out, Record(7, 1000, None, b"v"), 1)
    body = bytes.fromhex("01 00 00000000000003e8 ffffffff 00000001 76")
    assert out == struct.pack(">qiI", 7, 4 + len(body), zlib.crc32(body)) + body


@given(records)
@pytest.mark.parametrize("magic", [0, 1])
def test_encode_message_is_readable_by_aiokafka_and_kafka_python(magic: int, record: Record) -> None:
    out = bytearray()
    encode_message(out, record, magic)
    for reader in READERS:
        batch = reader(bytes(out), magic)
        assert batch.validate_crc()
        (read,) = list(batch)
        assert (read.offset, read.key, read.value) == (record.offset, record.key, record.value)
        assert read.timestamp == (record.timestamp if magic else None)


def test_encode_message_with_magic_1_marks_log_append_time() -> None:
    out = bytearray()
    encode_message(out, Record(0, 1000, None, b"v"), 1, attributes=8)
    (read,) = list(LegacyRecordBatch(bytes(out), 1))
    assert (read.timestamp, read.timestamp_type) == (1000, 1)


def test_encode_message_appends_messages_one_after_another() -> None:
    out = bytearray()
    for offset in range(3):
        encode_message(out, Record(offset, 0, None, b"x" * offset), 1)
    position = 0
    for offset in range(3):
        found, size = struct.unpack_from(">qi", out, position)
        assert found == offset
        position += 12 + size
    assert position == len(out)


def test_message_set_of_many_small_batches_is_converted_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releasing the interpreter's lock takes longer than converting a batch of one record."""
    releases: list[None] = []
    monkeypatch.setattr(pace, "yield_interpreter", lambda: releases.append(None))
    monkeypatch.setattr(pace, "perf_counter", lambda: 0.0)
    log = [make_batch([b"%d" % offset], offset) for offset in range(100)]

    def read(offset: int) -> LogSlice:
        regions = [bytes(batch) for batch in log if parse_header(batch).base_offset >= offset]
        return LogSlice(regions, sum(map(len, regions)))

    messages = MemoryRecords(message_set(read, 3, 1 << 20, 2, MemoryBudget(1 << 20)))
    values: list[bytes] = []
    while messages.has_next():
        values.extend(record.value for record in messages.next_batch())
    assert values == [b"%d" % offset for offset in range(3, 100)]
    assert releases == []
