"""Batches as a target takes them: whole and unread, or encoded again where it has to be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.tables import for_each
from tidelog.kernel.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    iter_batches,
    pack_batch,
    parse_header,
    stamp_append_time,
    stamp_offset,
)
from tidelog.kernel.records.message_set import MAGIC_V0, MAGIC_V1, Message, encode_message
from tidelog.kernel.records.record import Record, encode_record, iter_records
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord, ProducerStamp, build_batch
from tidelog.plugins.client.errors import CorruptRecords
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.mirror.source_batches import FetchedBatches, OutgoingBatch

PLACE = TopicPartition("orders", 0)
STAMP = ProducerStamp(77, 3, 1000, is_transactional=True)


def some(*values: str) -> list[NewRecord]:
    """Records that are not small."""
    return [
        NewRecord(each.encode() * 1000, b"key", [("h", b"1")], 5_000 + index)
        for index, each in enumerate(values)
    ]


def batch(first: int, *values: str, compression: str = "none", producer: int = NO_PRODUCER_ID) -> bytearray:
    data = build_batch(some(*values), now_ms=0, compression=compression, stamp=ProducerStamp(producer, 0, 0))
    stamp_offset(data, first, 9)
    return data


def with_gaps(first: int, kept: Sequence[int], length: int) -> bytearray:
    """A batch of which compaction has kept only these records, by their place among `length`."""
    whole = batch(first, *map(str, range(length)))
    header = parse_header(whole)
    records = bytearray()
    for each in iter_records(whole, header):
        if each.offset - first in kept:
            encode_record(records, each, first, header.base_timestamp)
    return pack_batch(header._replace(record_count=len(kept)), records)


def fetched(*parts: bytes | bytearray, offset: int = 0) -> FetchedBatches:
    data = memoryview(bytearray(b"".join(parts)))
    return FetchedBatches.of(Fetched(PLACE, offset, 1000, 1000, 0, data))


def stamped(outgoing: Sequence[OutgoingBatch]) -> list[Record]:
    """The records as a target gets them, in batches that it accepts."""
    records: list[Record] = []
    for each in outgoing:
        each.stamp(STAMP)
        ((header, data),) = iter_batches(memoryview(each.data))
        assert (header.base_offset, header.leader_epoch) == (0, -1)
        assert header.record_count == header.last_offset_delta + 1 == each.record_count
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 1000)
        assert header.is_transactional
        assert not header.attributes & (TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT)
        records += list(iter_records(data, header))
    return records


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [(each.key, each.value, each.timestamp, tuple(each.headers)) for each in records]


def expected(*values: str) -> list[tuple[object, ...]]:
    return [(each.key, each.value, each.timestamp, tuple(each.headers)) for each in some(*values)]


@for_each("compression", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_a_batch_is_copied_whole_and_its_records_are_the_same_bytes(compression: str) -> None:
    source = batch(40, "a", "b", "c", compression=compression, producer=5)
    (copy,) = fetched(source).outgoing()
    assert contents(stamped([copy])) == expected("a", "b", "c")
    assert bytes(copy.data[HEADER_BYTES:]) == bytes(source[HEADER_BYTES:])
    assert (copy.first_offset, copy.consecutive) == (40, 3)


def test_a_batch_is_stamped_again_after_an_aborted_transaction() -> None:
    (copy,) = fetched(batch(0, "a", "b")).outgoing()
    copy.stamp(ProducerStamp(1, 1, 1))
    assert contents(stamped([copy])) == expected("a", "b")


def test_a_batch_is_copied_from_the_middle_on() -> None:
    (copy,) = fetched(batch(10, "a", "b", "c"), offset=11).outgoing()
    assert contents(stamped([copy])) == expected("a", "b", "c")[1:]
    assert (copy.first_offset, copy.consecutive) == (11, 2)


def test_gaps_of_compaction_are_closed() -> None:
    (copy,) = fetched(with_gaps(20, [0, 1, 4], 6)).outgoing()
    assert contents(stamped([copy])) == [expected(*"012345")[each] for each in (0, 1, 4)]
    assert (copy.first_offset, copy.consecutive) == (20, 2)


def test_a_batch_without_records_is_left_out() -> None:
    read = fetched(with_gaps(20, [], 6))
    assert read.outgoing() == []
    assert read.next_offset == 26


def test_the_time_of_append_becomes_that_of_each_record() -> None:
    data = batch(0, "a", "b")
    stamp_append_time(data, parse_header(data), 99_000)
    (copy,) = fetched(data).outgoing()
    assert [each.timestamp for each in stamped([copy])] == [99_000, 99_000]


def test_a_delete_horizon_is_dropped_and_timestamps_stay() -> None:
    data = batch(0, "a", "b")
    header = parse_header(data)
    horizon = pack_batch(
        header._replace(attributes=header.attributes | DELETE_HORIZON_BIT), data[HEADER_BYTES:]
    )
    (copy,) = fetched(horizon).outgoing()
    assert contents(stamped([copy])) == expected("a", "b")


@for_each("magic", [MAGIC_V0, MAGIC_V1])
def test_messages_of_old_formats_are_gathered(magic: int) -> None:
    messages = bytearray()
    for offset in range(20):
        encode_message(messages, Message(offset, 7_000 + offset, b"k", b"%d" % offset), magic)
    (copy,) = fetched(messages, offset=3).outgoing()
    records = stamped([copy])
    assert [each.value for each in records] == [b"%d" % each for each in range(3, 20)]
    assert [each.timestamp for each in records] == [7_000 + each if magic else -1 for each in range(3, 20)]
    assert (copy.first_offset, copy.consecutive) == (3, 17)


def test_small_batches_are_gathered() -> None:
    parts = [build_batch([NewRecord(b"%d" % each, timestamp=each)], now_ms=0) for each in range(10)]
    for offset, part in enumerate(parts):
        stamp_offset(part, offset, 0)
    (copy,) = fetched(*parts).outgoing()
    assert [each.value for each in stamped([copy])] == [b"%d" % each for each in range(10)]


def test_batches_of_some_producers_are_left_out() -> None:
    read = fetched(batch(0, "a", producer=5), batch(1, "b", producer=6), batch(2, "c"))
    assert read.producer_ids == {5, 6, -1}
    assert contents(stamped(read.outgoing(without=[6]))) == [expected("a")[0], expected("c")[0]]
    assert read.next_offset == 3


def test_a_batch_that_is_too_large_is_divided() -> None:
    copies = fetched(batch(0, *"abcdef")).outgoing(most_bytes=2500)
    assert [each.record_count for each in copies] == [2, 2, 2]
    assert [each.first_offset for each in copies] == [0, 2, 4]
    assert [each.value for each in stamped(copies)] == [each.value for each in some(*"abcdef")]


def test_records_are_assigned_by_their_keys() -> None:
    read = fetched(batch(0, *"abcdef"), offset=1)
    numbers = iter([0, 1, 0, 1, 1])
    found = read.hashed(lambda _key: next(numbers))
    values = {number: [each.value for each in stamped(copies)] for number, copies in found.items()}
    records = [each.value for each in some(*"abcdef")]
    assert values == {0: [records[1], records[3]], 1: [records[2], records[4], records[5]]}


def test_a_wrong_crc_is_not_copied() -> None:
    data = batch(0, "a", "b")
    data[-1] ^= 1
    with pytest.raises(CorruptRecords, match=r"orders-0.*CRC"):
        fetched(data).outgoing()


def test_data_without_a_whole_batch_are_refused() -> None:
    with pytest.raises(CorruptRecords, match="no whole batch"):
        fetched(batch(0, "a")[:-1])
