"""Records into a batch and out of it, and what a client sees of transactions."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.message_sets import GZIP, SNAPPY, Row, plain_set, wrapper
from tests.plugins.client.fakes import NOW_MS
from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records import BatchHeader, parse_header, stamp_offset, verify_crc
from tidelog.kernel.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, iter_batches, pack_batch
from tidelog.kernel.records.record import Record, encode_record
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.batches import NewRecord, ProducerStamp, build_batch
from tidelog.plugins.client.errors import CorruptRecords
from tidelog.plugins.client.fetched import Fetched

PARTITION = TopicPartition("orders", 3)
NEW_RECORDS = st.builds(
    NewRecord,
    value=st.none() | st.binary(max_size=50),
    key=st.none() | st.binary(max_size=20),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(
        tuple
    ),
    timestamp=st.none() | st.integers(0, 2**41),
)

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def at_offset(batch: bytearray, offset: int) -> bytes:
    stamp_offset(batch, offset, 0)
    return bytes(batch)


def fetched(data: bytes, offset: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> Fetched:
    return Fetched(PARTITION, offset, 100, 100, 0, memoryview(data), aborted)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(records=st.lists(NEW_RECORDS, min_size=1, max_size=8), offset=st.integers(0, 2**40))
def test_build_batch_round_trips_records_with_every_compression(
    compression: str, records: list[NewRecord], offset: int
) -> None:
    batch = at_offset(build_batch(records, now_ms=NOW_MS, compression=compression), offset)
    assert list(fetched(batch, offset).records()) == [
        Record(
            offset + index,
            NOW_MS if record.timestamp is None else record.timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for index, record in enumerate(records)
    ]


def test_records_are_those_of_messages_of_old_formats_too() -> None:
    rows: list[Row] = [(NOW_MS, b"a", b"1"), (NOW_MS + 1, None, None), (NOW_MS + 2, b"b", b"")]
    data = b"".join(
        [
            wrapper(plain_set(rows, 0), 0, GZIP, 2),
            wrapper(plain_set(rows, 1), 1, SNAPPY, 5, NOW_MS + 2),
            plain_set(rows[:1], 1, 6),
            at_offset(build_batch([NewRecord(b"new")], now_ms=NOW_MS), 7),
            plain_set(rows[:1], 0, 8),
        ]
    )
    found = fetched(data + data[:30], 1)
    assert found.next_offset() == 9
    assert [(each.offset, each.timestamp, each.key, each.value) for each in found.records()] == [
        *[(offset, -1, *row[1:]) for offset, row in enumerate(rows) if offset],
        *[(offset, *row) for offset, row in enumerate(rows, 3)],
        (6, *rows[0]),
        (7, NOW_MS, None, b"new"),
        (8, -1, b"a", b"1"),
    ]
    damaged = bytearray(data)
    damaged[40] ^= 1
    with pytest.raises(CorruptRecords, match="the CRC of the batch at offset 2 is wrong"):
        list(fetched(bytes(damaged)).records())


def test_build_batch_writes_the_header_fields_of_a_producer_batch() -> None:
    records = [NewRecord(b"a", timestamp=50), NewRecord(b"b", timestamp=20), NewRecord(b"c", timestamp=90)]
    batch = build_batch(records, now_ms=NOW_MS, compression="zstd", stamp=ProducerStamp(7, 2, 40))
    header = parse_header(batch)
    assert verify_crc(batch, header)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (50, 90)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert (header.attributes, header.leader_epoch) == (4, -1)


def test_build_batch_without_a_stamp_has_no_producer_id_and_sequence() -> None:
    header = parse_header(build_batch([NewRecord(b"a")], now_ms=NOW_MS))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_build_batch_refuses_no_records_and_an_unknown_compression() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([], now_ms=NOW_MS)
    with pytest.raises(ValueError, match="'brotli' is none of none, gzip, snappy, lz4, zstd"):
        build_batch([NewRecord(b"a")], now_ms=NOW_MS, compression="brotli")


THREE = b"".join(
    at_offset(build_batch([NewRecord(b"%d" % value), NewRecord(b"x")], now_ms=NOW_MS), value * 10)
    for value in range(3)
)


@for_each("cut", range(0, len(THREE) + 1, 5))
def test_iter_batches_leaves_out_a_truncated_last_batch(cut: int) -> None:
    size = len(THREE) // 3
    assert len(list(iter_batches(memoryview(THREE)[:cut]))) == cut // size


def test_fetched_next_offset_follows_the_last_whole_batch() -> None:
    assert fetched(THREE).next_offset() == 22
    assert fetched(THREE[:-1]).next_offset() == 12
    assert fetched(b"", offset=5).next_offset() == 5


def test_fetched_records_leave_out_records_before_the_fetch_offset() -> None:
    assert [record.offset for record in fetched(THREE, offset=11).records()] == [11, 20, 21]


def test_fetched_next_offset_refuses_a_response_without_a_whole_batch() -> None:
    with pytest.raises(
        CorruptRecords, match="orders-3 cannot be read: 70 bytes at offset 4 hold no whole batch"
    ):
        fetched(THREE[:70], offset=4).next_offset()


def wrong(position: int, content: bytes) -> bytes:
    return THREE[:position] + content + THREE[position + len(content) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wrong(65, b"\xee"), "the CRC of the batch at offset 0 is wrong"),
        (wrong(16, b"\x01"), "the CRC of the batch at offset 0 is wrong"),
        (wrong(16, b"\x03"), "there is no message format 3"),
        (wrong(8, struct.pack(">i", 10)), "the batch at offset 0 cannot have 22 bytes"),
        (wrong(8, struct.pack(">i", -1)), "the batch at offset 0 cannot have 11 bytes"),
    ],
)
def test_bytes_that_are_no_batches_are_told_with_the_partition(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecords, match=f"orders-3 cannot be read: {reason}"):
        list(fetched(data).records())
    with pytest.raises(CorruptRecords, match=f"orders-3 cannot be read: {reason}"):
        list(fetched(data).committed_batches())


@pytest.mark.parametrize("data", [wrong(16, b"\x03"), wrong(8, struct.pack(">i", 10))])
def test_fetched_next_offset_refuses_what_is_no_batch(data: bytes) -> None:
    with pytest.raises(CorruptRecords, match="orders-3 cannot be read"):
        fetched(data).next_offset()


def test_fetched_records_raise_corrupt_records_for_a_wrong_record_count() -> None:
    batch = pack_batch(parse_header(THREE)._replace(record_count=9), b"\x02\x00")
    with pytest.raises(CorruptRecords, match="orders-3"):
        list(fetched(bytes(batch)).records())


@given(st.binary(max_size=300))
def test_fetched_raises_only_corrupt_records_for_any_bytes(noise: bytes) -> None:
    try:
        list(fetched(noise).records())
        fetched(noise).next_offset()
    except CorruptRecords:
        pass


def transactional(producer_id: int, offset: int, value: bytes) -> bytes:
    batch = build_batch([NewRecord(value)], now_ms=NOW_MS, stamp=ProducerStamp(producer_id, 0, 0))
    header = parse_header(batch)
    marked = header._replace(attributes=header.attributes | TRANSACTIONAL_BIT, base_offset=offset)
    return bytes(pack_batch(marked, batch[61:]))


def marker(producer_id: int, offset: int, *, commit: bool) -> bytes:
    record = bytearray()
    key = struct.pack(">hh", 0, int(commit))
    encode_record(record, Record(offset, NOW_MS, key, struct.pack(">hi", 0, 0)), offset, NOW_MS)
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    header = BatchHeader(offset, 0, 0, 2, 0, attributes, 0, NOW_MS, NOW_MS, producer_id, 0, -1, 1)
    return bytes(pack_batch(header, record))


TRANSACTIONS = (
    transactional(1, 0, b"aborted")
    + transactional(2, 1, b"committed")
    + at_offset(build_batch([NewRecord(b"plain")], now_ms=NOW_MS), 2)
    + marker(1, 3, commit=False)
    + transactional(1, 4, b"committed later")
    + marker(2, 5, commit=True)
    + marker(1, 6, commit=True)
    + transactional(2, 7, b"aborted later")
    + marker(2, 8, commit=False)
)


def test_fetched_records_leave_out_aborted_transactions_and_control_batches() -> None:
    answer = fetched(TRANSACTIONS, aborted=[(2, 7), (1, 0)])
    assert [record.value for record in answer.records()] == [b"committed", b"plain", b"committed later"]
    assert answer.next_offset() == 9


def test_fetched_records_without_aborted_list_leave_out_only_control_batches() -> None:
    assert [record.offset for record in fetched(TRANSACTIONS).records()] == [0, 1, 2, 4, 7]


def test_fetched_batches_include_control_batches() -> None:
    offsets = [header.base_offset for header, _ in fetched(TRANSACTIONS).batches()]
    assert offsets == list(range(9))


def test_iter_batches_raises_corrupt_batch_of_the_kernel() -> None:
    with pytest.raises(CorruptBatch):
        list(iter_batches(memoryview(wrong(65, b"\xee"))))
