"""Message sets of formats 0 and 1, as other implementations read them."""

from __future__ import annotations

import struct
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import trio
from aiokafka.record.legacy_records import LegacyRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatch as OtherRecordBatch

from tests.tables import for_each
from tidelog.kernel import pace
from tidelog.kernel.errors import MessageTooLarge
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    MAGIC_AT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
    parse_header,
    stamp_offset,
)
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.records.message_set import MessageContent, encode_message
from tidelog.kernel.records.record import Record
from tidelog.kernel.records.stored import iter_stored_contents, unpacking_memory
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import FileRegion, LogSlice
from tidelog.kernel.seams.wire import StreamedBytes
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis import down_conversion
from tidelog.plugins.protocol_kafka.apis.down_conversion import (
    MAX_RECORD_BYTES,
    PIECE_BYTES,
    Conversion,
    ConvertedRecords,
    converted,
)
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from .client import Client, streamed

MIB = 1 << 20
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


def log_of(batches: Sequence[bytes | bytearray]) -> Callable[..., LogSlice]:
    """Reads all batches from an offset on, in slices of some."""

    def read(offset: int, count: int = 100) -> LogSlice:
        regions = [bytes(batch) for batch in batches if parse_header(batch).next_offset > offset][:count]
        end = parse_header(regions[-1]).next_offset if regions else offset
        return LogSlice(regions, sum(map(len, regions)), end)

    return read


def values_in(messages: bytes) -> list[bytes]:
    """The values of the messages in a set, as kafka-python reads them; it ignores one that is cut."""
    found = MemoryRecords(messages)
    values: list[bytes] = []
    while found.has_next():
        values.extend(record.value for record in found.next_batch())
    return values


def test_conversion_of_many_small_batches_is_done_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releasing the interpreter's lock takes longer than converting a batch of one record."""
    releases: list[None] = []
    monkeypatch.setattr(pace, "yield_interpreter", lambda: releases.append(None))
    monkeypatch.setattr(pace, "perf_counter", lambda: 0.0)
    log = [make_batch([b"%d" % offset], offset) for offset in range(200)]
    conversion = Conversion(log_of(log), 3, 2, Unpacking(1 << 20))
    assert values_in(conversion.more(1 << 20)) == [b"%d" % offset for offset in range(3, 200)]
    assert conversion.next_offset == 200
    assert conversion.more(1 << 20) == b""
    assert releases == []


def test_conversion_releases_the_interpreter_before_the_event_loop_waits_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other clients' requests wait for it after each system call; a thread's usual 200 us are too long."""
    now, held_since, held = 0.0, 0.0, list[float]()

    def tick() -> float:
        nonlocal now
        now += 5e-6
        return now

    def release() -> None:
        nonlocal held_since
        held.append(now - held_since)
        held_since = now

    monkeypatch.setattr(pace, "yield_interpreter", release)
    monkeypatch.setattr(pace, "perf_counter", tick)
    conversion = Conversion(log_of([make_batch([b"v"] * 200)]), 0, 2, Unpacking(1 << 20))
    assert len(values_in(conversion.more(1 << 20))) == 200
    assert held
    assert max(held) <= 75e-6


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_conversion_returns_the_format_that_came_with_a_version_of_fetch(version: int, magic: int) -> None:
    messages = Conversion(log_of([make_batch([b"v"])]), 0, version, Unpacking()).more(PIECE_BYTES)
    assert messages[MAGIC_AT] == magic


@pytest.mark.parametrize("timestamp_type", [0, TIMESTAMP_TYPE_BIT])
def test_conversion_says_of_format_1_whose_time_a_timestamp_is(timestamp_type: int) -> None:
    """Format 0 has no timestamps, and its readers do not know the bit."""
    batch = make_batch([b"v"])
    batch = pack_batch(parse_header(batch)._replace(attributes=timestamp_type), batch[HEADER_BYTES:])
    old, new = (Conversion(log_of([batch]), 0, version, Unpacking()).more(PIECE_BYTES) for version in (1, 2))
    (record,) = list(LegacyRecordBatch(new, 1))
    assert record.timestamp_type == (1 if timestamp_type else 0)
    assert old[MAGIC_AT : MAGIC_AT + 2] == b"\0\0"


def test_conversion_has_the_limits_of_the_page() -> None:
    assert (PIECE_BYTES, down_conversion.MAX_FIRST_BYTES) == (256 * 1024, 4 * MIB)
    assert MAX_RECORD_BYTES == 4 * MIB
    page = Path(__file__).parents[4].joinpath("docs", "protocol.md").read_text(encoding="utf-8")
    assert "| 256 KiB of a partition, 4 MiB in all, shared by its partitions |" in page
    assert "| a record in a response to Fetch 0 to 3 | – | 4 MiB |" in page


def test_conversion_refuses_a_record_that_is_larger_than_the_limit() -> None:
    def converted_record(value_bytes: int) -> bytes:
        read = log_of([make_batch([bytes(value_bytes)])])
        return Conversion(read, 0, 2, Unpacking()).more(PIECE_BYTES)

    assert len(converted_record(MAX_RECORD_BYTES - 100)) > MAX_RECORD_BYTES - 100
    with pytest.raises(MessageTooLarge):
        converted_record(MAX_RECORD_BYTES)


def test_conversion_refuses_a_record_that_is_too_large_also_behind_others() -> None:
    """What comes before it is returned first, and the record is not skipped then."""
    batch = make_batch([b"small", bytes(MAX_RECORD_BYTES), b"behind"])
    conversion = Conversion(log_of([batch]), 0, 2, Unpacking())
    assert values_in(conversion.more(PIECE_BYTES)) == [b"small"]
    for _ in range(2):
        with pytest.raises(MessageTooLarge):
            conversion.more(PIECE_BYTES)
    assert conversion.next_offset == 1


def test_conversion_returns_as_many_messages_as_fit() -> None:
    """As many bytes as a client asks for, and not one message fewer where the last one just fits."""
    read = log_of([make_batch([b"one", b"two", b"three"])])
    two = Conversion(log_of([make_batch([b"one", b"two"])]), 0, 2, Unpacking()).more(PIECE_BYTES)
    for max_bytes, expected in [(len(two) - 1, [b"one"]), (len(two), [b"one", b"two"])]:
        conversion = Conversion(read, 0, 2, Unpacking())
        assert values_in(conversion.more(max_bytes)) == expected
        assert conversion.next_offset == len(expected)


def test_conversion_that_begins_again_releases_what_it_kept() -> None:
    unpacking = Unpacking()
    free = unpacking.kept.free_bytes
    conversion = Conversion(log_of([of_many_records(1)]), 0, 2, unpacking)
    first = conversion.more(PIECE_BYTES)
    assert unpacking.kept.free_bytes < free
    conversion.restart(0)
    assert unpacking.kept.free_bytes == free
    assert conversion.more(PIECE_BYTES) == first


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of all records that are decoded from now on."""
    decoded: list[int] = []

    def noted(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[MessageContent]:
        for record in iter_stored_contents(batch, header, most_bytes):
            decoded.append(record.offset)
            yield record

    monkeypatch.setattr(down_conversion, "iter_stored_contents", noted)
    return decoded


def of_many_records(codec: int) -> bytearray:
    """A batch of 4000 records, which takes more than a dozen pieces."""
    return recompressed(make_batch([b"%04d" % number * 250 for number in range(4000)]), codec)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_conversion_in_pieces_decodes_each_record_once(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = counting(monkeypatch)
    unpacking = Unpacking()
    free = unpacking.kept.free_bytes
    conversion = Conversion(log_of([of_many_records(codec)]), 0, 2, unpacking)
    pieces = [conversion.more(PIECE_BYTES)]
    while pieces[-1]:
        # Memory for decompression is not held between two pieces.
        assert unpacking.memory.free_bytes == Unpacking().memory.free_bytes
        assert (unpacking.kept.free_bytes < free) == (len(decoded) < 4000)
        pieces.append(conversion.more(PIECE_BYTES))
    assert len(pieces) > 12
    assert decoded == list(range(4000))
    assert unpacking.kept.free_bytes == free


def test_conversion_in_pieces_keeps_no_batch_open_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = counting(monkeypatch)
    batch = of_many_records(1)
    unpacking = Unpacking(8 << 20)
    one, other = (Conversion(log_of([batch]), 0, 2, unpacking) for _ in range(2))
    assert one.more(PIECE_BYTES)
    held = 4 * MIB - unpacking.kept.free_bytes
    # What it decompresses, what it has read, and the record that the next piece begins with.
    assert held >= unpacking_memory(batch, parse_header(batch)) + len(batch) + 1000
    assert unpacking.kept.try_hold(unpacking.kept.free_bytes)
    assert other.more(PIECE_BYTES)
    decoded.clear()
    assert other.more(PIECE_BYTES)
    assert decoded[0] == 0
    decoded.clear()
    assert one.more(PIECE_BYTES)
    assert decoded[0] > 200


@for_each(("key", "value"), [(b"k" * 1000, None), (None, b"v" * 1000), (b"k" * 600, b"v" * 400)])
def test_conversion_counts_the_record_that_the_next_piece_begins_with(
    key: bytes | None, value: bytes | None
) -> None:
    batch = make_batch([value] * 400, keys=[key] * 400)
    unpacking = Unpacking()
    free = unpacking.kept.free_bytes
    conversion = Conversion(log_of([batch]), 0, 2, unpacking)
    assert conversion.more(PIECE_BYTES)
    held = free - unpacking.kept.free_bytes
    assert held == unpacking_memory(batch, parse_header(batch)) + len(batch) + 1000


@pytest.mark.parametrize("codec", [1, 4])
def test_conversion_holds_the_memory_of_a_batch_while_it_is_decompressed(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = of_many_records(codec)
    unpacking = Unpacking()
    total = unpacking.memory.free_bytes
    held: set[int] = set()

    def noted(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[MessageContent]:
        for record in iter_stored_contents(batch, header, most_bytes):
            held.add(total - unpacking.memory.free_bytes)
            yield record

    monkeypatch.setattr(down_conversion, "iter_stored_contents", noted)
    conversion = Conversion(log_of([batch]), 0, 2, unpacking)
    assert conversion.more(PIECE_BYTES)
    assert conversion.more(PIECE_BYTES)
    assert held == {unpacking_memory(batch, parse_header(batch))}
    assert held != {0}


def test_conversion_that_its_client_has_left_releases_what_it_kept() -> None:
    unpacking = Unpacking()
    free = unpacking.kept.free_bytes
    conversion = Conversion(log_of([of_many_records(4)]), 0, 2, unpacking)
    assert conversion.more(PIECE_BYTES)
    assert unpacking.kept.free_bytes < free
    del conversion
    assert unpacking.kept.free_bytes == free


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.booleans()), max_size=6),
    st.integers(0, 20),
    st.lists(st.integers(1, 400), min_size=1, max_size=5),
    st.booleans(),
)
def test_conversion_in_pieces_returns_each_message_once(
    drawn: list[tuple[int, int, bool]], offset: int, sizes: list[int], keeps_open: bool
) -> None:
    log: list[bytearray] = []
    expected: list[bytes] = []
    end = 0
    for count, codec, is_marker in drawn:
        values = [b"%d" % each + b"x" * (each * 37 % 200) for each in range(end, end + count)]
        if is_marker:
            marker, _ = marker_batch(7, 1, EndMarker(True, 3), 0)
            stamp_offset(marker, end, 0)
            log.append(marker)
            end += 1
            continue
        log.append(recompressed(make_batch(values, end), codec))
        expected += values[max(offset - end, 0) :]
        end += count
    unpacking = Unpacking(1 << 20)
    if not keeps_open:
        assert unpacking.kept.try_hold(unpacking.kept.free_bytes)
    kept_bytes = unpacking.kept.free_bytes
    conversion = Conversion(log_of(log), offset, 0, unpacking)
    found: list[bytes] = []
    for size in cycle(sizes):
        piece = conversion.more(size)
        if not piece:
            break
        values = values_in(piece)
        assert values
        assert len(piece) <= size or len(values) == 1
        found += values
        assert unpacking.memory.free_bytes == 1 << 20
    assert found == expected
    assert unpacking.kept.free_bytes == kept_bytes
    assert conversion.next_offset == max(end, offset)


def recompressed(batch: bytearray, codec: int) -> bytearray:
    """The batch with another codec."""
    header = parse_header(batch)
    packed = compress(codec, batch[HEADER_BYTES:])
    return pack_batch(header._replace(attributes=codec), packed)


async def drained(records: ConvertedRecords) -> bytes:
    """All bytes of a partition in a response."""
    content = await streamed(list(records.regions))
    assert len(content) == records.size
    return content


async def in_thread(job: Callable[[], bytes]) -> bytes:
    """Run a job in a thread."""
    return await trio.to_thread.run_sync(job)


BIG = [make_batch([b"%d" % offset * 30_000], offset) for offset in range(10, 60)]
STORED = sum(map(len, BIG))


def big_conversion(read: Callable[[int], LogSlice], version: int = 2) -> Conversion:
    """Of the log `BIG`."""
    return Conversion(read, 10, version, Unpacking(1 << 20))


@pytest.mark.parametrize(
    ("log", "max_bytes"),
    [([make_batch([b"v"], offset) for offset in range(10, 20)], 2**30), (BIG, PIECE_BYTES)],
    ids=["a short log", "no more than a piece"],
)
async def test_converted_has_whole_messages_alone_if_they_fit_a_piece(
    log: list[bytearray], max_bytes: int
) -> None:
    """Their size is known: nothing is cut to make up for what batches take more."""
    read = log_of(log)
    records = converted(big_conversion(read), read(10), max_bytes, in_thread)
    assert not any(isinstance(region, StreamedBytes) for region in records.regions)
    content = await drained(records)
    assert content == big_conversion(read).more(PIECE_BYTES)
    assert records.held_bytes == len(content)
    assert len(values_in(content)) == min(len(log), max_bytes // 60_000)


@pytest.mark.parametrize("version", [0, 2])
async def test_converted_streams_what_is_more_than_a_piece(version: int) -> None:
    read = log_of(BIG)
    records = converted(big_conversion(read, version), read(10), 2**30, in_thread)
    assert records.size == STORED
    assert records.held_bytes < PIECE_BYTES
    # A message of format 0 takes fewer bytes than the batch of its record.
    values = values_in(await drained(records))
    assert values == [b"%d" % offset * 30_000 for offset in range(10, 60)]


async def test_converted_cuts_the_last_message_at_the_size_that_was_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = counting(monkeypatch)
    read = log_of(BIG)
    records = converted(big_conversion(read), read(10), 1_000_000, in_thread)
    assert records.size == 1_000_000
    assert len(values_in(await drained(records))) == 1_000_000 // 60_100
    # The one that is cut, and the next one, which is found not to fit.
    assert len(decoded) == 1_000_000 // 60_100 + 2


async def test_converted_ends_with_a_cut_message_where_there_are_no_more() -> None:
    """The log may be truncated, or damaged, while the response is sent."""
    there = list(BIG)
    conversion = big_conversion(lambda offset: log_of(there)(offset, 1))
    records = converted(conversion, log_of(BIG)(10), 2**30, in_thread)
    del there[20:]
    content = await drained(records)
    assert len(values_in(content)) == 20
    end = end_of(content)
    offset, size = struct.unpack_from(">qi", content, end)
    assert offset == -1
    assert size > len(content) - end - 12


def end_of(content: bytes) -> int:
    """Where the whole messages in it end."""
    position = 0
    while True:
        offset, size = struct.unpack_from(">qi", content, position)
        if offset < 0 or position + 12 + size > len(content):
            return position
        position += 12 + size


async def test_converted_ends_with_a_cut_message_at_a_record_that_is_not_converted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = make_batch([b"x" * 70_000], 60)
    monkeypatch.setattr(down_conversion, "MAX_RECORD_BYTES", 65_000)
    read = log_of([*BIG, large])
    records = converted(big_conversion(read), read(10), 2**30, in_thread)
    assert len(values_in(await drained(records))) == len(BIG)
    with pytest.raises(MessageTooLarge):
        converted(Conversion(read, 60, 2, Unpacking(1 << 20)), read(60), 2**30, in_thread)


@pytest.mark.parametrize("max_bytes", [1000, 1_000_000, 2**30])
async def test_converted_without_first_bytes_returns_the_same_and_holds_nothing(max_bytes: int) -> None:
    read = log_of(BIG)
    there = converted(big_conversion(read), read(10), max_bytes, in_thread)
    streamed_only = converted(big_conversion(read), read(10), max_bytes, in_thread, 0)
    assert (streamed_only.size, streamed_only.held_bytes) == (there.size, 0)
    assert all(isinstance(region, StreamedBytes) for region in streamed_only.regions)
    assert values_in(await drained(streamed_only)) == values_in(await drained(there)) != []
    assert converted(big_conversion(log_of([])), read(10), max_bytes, in_thread, 0).size == 0


@pytest.mark.parametrize("version", range(4))
async def test_fetch_returns_messages_of_all_of_many_partitions(version: int) -> None:
    """They share what is in memory before the response is sent, as they share `fetch.max.bytes`."""
    value = bytes(100_000)
    async with running_broker({"storage": "memory"}) as broker:
        topic = await broker.topics.create(TopicSpec("many", 50, config={"max.message.bytes": "1000000"}))
        for partition in topic.partitions:
            for _ in range(5):
                partition.log.append_nowait(make_batch([value] * 2))
        wanted = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=MIB) for n in range(50)]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=2**31 - 1,
            topics=[FetchTopic(topic="many", partitions=wanted)],
        )
        answer = await Client(broker).ask(FETCH, version, request)
    found = [values_in(bytes(part.records)) for part in answer.responses[0].partitions]
    assert [len(values) for values in found] == [10] * 50


async def test_converted_runs_in_threads() -> None:
    threads: set[int] = set()
    read = log_of(BIG)

    def noted(offset: int) -> LogSlice:
        threads.add(threading.get_ident())
        return read(offset)

    records = converted(big_conversion(noted), read(10), 2**30, in_thread)
    threads.clear()
    await drained(records)
    assert threading.get_ident() not in threads


async def test_a_fetch_of_50_megabytes_takes_little_memory() -> None:
    """Whatever the client asks for, a few pieces are in memory: of the log, and of messages."""
    async with running_broker({"storage": "memory", "fetch.max.bytes": 1 << 30}) as broker:
        topic = await broker.topics.create(TopicSpec("big", 1, config={"max.message.bytes": str(1 << 20)}))
        (partition,) = topic.partitions
        value = bytes(range(250)) * 400
        for _ in range(100):
            partition.log.append_nowait(make_batch([value] * 5))
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 30,
            topics=[FetchTopic(topic="big", partitions=[wanted])],
        )
        client = Client(broker)
        tracemalloc.start()
        try:
            step = client.start(FETCH, 3, request)
            assert not isinstance(step, list)
            size = 0
            for part in await step:
                assert not isinstance(part, FileRegion)
                if not isinstance(part, StreamedBytes):
                    size += len(part)
                    continue
                end = size + part.size
                while size < end:
                    size += len(await part.next_piece())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size > 50_000_000
    assert peak < 8 * PIECE_BYTES
