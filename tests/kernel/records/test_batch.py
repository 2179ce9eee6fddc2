"""The record batch header: where each field lies, what may be stamped, what the CRC covers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch, UnsupportedMessageFormat
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
    parse_header,
    stamp_append_time,
    stamp_offset,
    verify_crc,
)

# A batch of one record (key "k", value "v") as the Java client sends it: written down byte by byte.
WIRE = bytes.fromhex(
    "0000000000000000"  # base offset
    "0000003a"  # batch length
    "ffffffff"  # partition leader epoch
    "02"  # magic
    "e5a1b0b8"  # CRC-32C, checked below against a bitwise computation
    "0000"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # max timestamp
    "ffffffffffffffff"  # producer id
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000001"  # record count
    "10000000026b027600"  # the record
)


def bitwise_crc32c(data: bytes) -> int:
    """CRC-32C by its definition (reflected polynomial 0x82F63B78), independent of any library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def headers() -> st.SearchStrategy[BatchHeader]:
    """Headers with any values at all."""
    int16, int32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
    int64 = st.integers(-(2**63), 2**63 - 1)
    return st.builds(
        BatchHeader,
        base_offset=int64,
        batch_length=int32,
        leader_epoch=int32,
        magic=st.just(2),
        crc=st.integers(0, 2**32 - 1),
        attributes=int16,
        last_offset_delta=int32,
        base_timestamp=int64,
        max_timestamp=int64,
        producer_id=int64,
        producer_epoch=int16,
        base_sequence=int32,
        record_count=int32,
    )


def a_header(**fields: int) -> BatchHeader:
    """A plain header of a batch of one record, but for `fields`."""
    plain = BatchHeader(0, 0, -1, 2, 0, 0, 0, 1000, 1000, NO_PRODUCER_ID, -1, NO_SEQUENCE, 1)
    return plain._replace(**fields)


def test_a_batch_as_clients_send_it() -> None:
    batch = bytearray(WIRE)
    struct.pack_into(">I", batch, 17, bitwise_crc32c(WIRE[21:]))
    header = parse_header(batch)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=0x3A,
        leader_epoch=-1,
        magic=2,
        crc=bitwise_crc32c(WIRE[21:]),
        attributes=0,
        last_offset_delta=0,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    assert header.size == len(WIRE) == 70
    assert verify_crc(batch, header)


@given(headers(), st.binary(max_size=20))
def test_parse_header_reads_what_pack_batch_wrote(header: BatchHeader, records: bytes) -> None:
    batch = pack_batch(header, records)
    parsed = parse_header(batch)
    assert parsed._replace(batch_length=0, crc=0) == header._replace(batch_length=0, crc=0)
    assert parsed.size == len(batch) == HEADER_BYTES + len(records)
    assert parsed.crc == bitwise_crc32c(bytes(batch[21:]))
    assert batch[HEADER_BYTES:] == records


@given(headers(), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_stamp_offset_changes_only_base_offset_and_leader_epoch(
    header: BatchHeader, offset: int, epoch: int
) -> None:
    batch = pack_batch(header, b"records")
    before = parse_header(batch)
    stamp_offset(batch, offset, epoch)
    after = parse_header(batch)
    assert after == before._replace(base_offset=offset, leader_epoch=epoch)
    assert verify_crc(batch, after)


@given(headers(), st.integers(0, 2**63 - 1))
def test_stamp_append_time_sets_max_timestamp_and_renews_the_crc(header: BatchHeader, now_ms: int) -> None:
    batch = pack_batch(header, b"records")
    before = parse_header(batch)
    stamp_append_time(batch, before, now_ms)
    after = parse_header(batch)
    assert verify_crc(batch, after)
    assert after.is_append_time
    assert after._replace(crc=0) == before._replace(
        crc=0, attributes=before.attributes | TIMESTAMP_TYPE_BIT, max_timestamp=now_ms
    )
    assert batch[HEADER_BYTES:] == b"records"


def test_stamp_offset_and_stamp_append_time_change_a_batch_inside_a_larger_buffer() -> None:
    """The broker stamps a batch where it lies in the receive buffer."""
    batch = pack_batch(a_header(), b"records")
    received = bytearray(b"before" + batch + b"behind")
    view = memoryview(received)[6 : 6 + len(batch)]
    stamp_offset(view, 77, 5)
    stamp_append_time(view, parse_header(view), 4711)
    inside = parse_header(received, 6)
    assert (inside.base_offset, inside.leader_epoch, inside.max_timestamp) == (77, 5, 4711)
    assert verify_crc(view, inside)
    assert received.startswith(b"before")
    assert received.endswith(b"behind")


@for_each("at", range(21, 70))
def test_verify_crc_detects_a_flipped_bit_from_the_attributes_on(at: int) -> None:
    batch = pack_batch(a_header(), WIRE[HEADER_BYTES:])
    for bit in range(8):
        batch[at] ^= 1 << bit
        assert not verify_crc(batch, parse_header(batch))
        batch[at] ^= 1 << bit


@for_each("at", [*range(12), *range(12, 16)])
def test_verify_crc_does_not_cover_base_offset_length_and_leader_epoch(at: int) -> None:
    batch = pack_batch(a_header(), WIRE[HEADER_BYTES:])
    batch[at] ^= 0xFF
    assert verify_crc(batch, parse_header(batch))


@for_each(
    ("attributes", "said"),
    [
        (0, ()),
        (1, ("codec1",)),
        (7, ("codec7",)),
        (TIMESTAMP_TYPE_BIT, ("append_time",)),
        (TRANSACTIONAL_BIT, ("transactional",)),
        (CONTROL_BIT, ("control",)),
        (CONTROL_BIT | TRANSACTIONAL_BIT | 4, ("codec4", "transactional", "control")),
        (0x7FC0, ()),
    ],
)
def test_batch_header_attributes_give_codec_and_flags(attributes: int, said: tuple[str, ...]) -> None:
    header = a_header(attributes=attributes)
    names = (f"codec{header.codec}", "append_time", "transactional", "control")
    flags = (header.codec, header.is_append_time, header.is_transactional, header.is_control)
    assert tuple(name for name, flag in zip(names, flags, strict=True) if flag) == said


@for_each(
    ("base", "delta", "last"),
    [
        (-1, 10, -1),
        (0, 0, 0),
        (5, 4, 9),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 3, 9, 6),
        (0, 2**31 - 1, 2**31 - 1),
    ],
)
def test_the_last_sequence_wraps_to_zero(base: int, delta: int, last: int) -> None:
    assert a_header(base_sequence=base, last_offset_delta=delta).last_sequence == last


def test_offsets_of_a_batch_that_compaction_emptied() -> None:
    header = a_header(base_offset=100, last_offset_delta=9, record_count=0)
    assert (header.last_offset, header.next_offset) == (109, 110)


@for_each("size", range(HEADER_BYTES))
def test_parse_header_refuses_a_header_that_is_cut_short(size: int) -> None:
    with pytest.raises(CorruptBatch, match=f"{size} bytes cannot hold a record batch"):
        parse_header(WIRE[:size])


@pytest.mark.parametrize("position", [54, 69, 70, 71])
def test_parse_header_refuses_a_position_with_too_few_bytes_after_it(position: int) -> None:
    with pytest.raises(CorruptBatch):
        parse_header(WIRE, position)


@pytest.mark.parametrize(
    ("magic", "error"),
    [
        (0, UnsupportedMessageFormat),
        (1, UnsupportedMessageFormat),
        (3, CorruptBatch),
        (127, CorruptBatch),
        (255, CorruptBatch),
    ],
)
def test_parse_header_refuses_other_magic_values(magic: int, error: type[Exception]) -> None:
    batch = bytearray(WIRE)
    batch[16] = magic
    with pytest.raises(error, match=f"message format {magic}"):
        parse_header(batch)


def test_parse_header_reports_the_old_message_format_of_a_short_message() -> None:
    """A message set entry of format 0 can be shorter than a record batch header."""
    message = struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1)
    with pytest.raises(UnsupportedMessageFormat, match="message format 0 "):
        parse_header(message)
