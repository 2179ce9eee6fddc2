"""Message sets become batches: what Apache Kafka accepts and refuses, with offsets, codecs and limits."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.message_sets import GZIP, LZ4, MIB, SNAPPY, Row, by_kafka_python, plain_set, wrapper
from tests.tables import for_each
from tidelog.kernel.errors import (
    BrokerError,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompression,
)
from tidelog.kernel.records import compression
from tidelog.kernel.records.batch import TIMESTAMP_TYPE_BIT, Buffer, parse_header, verify_crc
from tidelog.kernel.records.checking import RecordRules
from tidelog.kernel.records.compression import PACKED_PIECE_BYTES
from tidelog.kernel.records.message_set import is_cut
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.records.up_conversion import (
    MESSAGES_PER_STEP,
    UpConversion,
    source_codec,
    up_convert_in_steps,
)
from tidelog.plugins.compression.gzip import GzipCodec

ROWS: list[Row] = [(1000, b"key", b"value"), (990, None, b""), (1005, b"", None)]
DEFAULT = UpConversion(RecordRules(), 100 * MIB)
KEYS = DEFAULT._replace(rules=RecordRules(keys_required=True))
LIMITS = DEFAULT._replace(rules=RecordRules(oldest_ms=990, newest_ms=1004))
APPEND_TIME = LIMITS._replace(append_time=True)
LONG_AGO = -(2**63)


def converted(messages: bytes, conversion: UpConversion = DEFAULT) -> bytes:
    """The batch of a message set."""
    steps = up_convert_in_steps(messages, conversion)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


def rows_of(batch: bytes) -> list[Row]:
    """What is in a batch, whose offsets are dense."""
    header = parse_header(batch)
    assert header.size == len(batch)
    assert verify_crc(batch, header)
    records = list(iter_records(batch, header))
    assert [record.offset for record in records] == list(range(header.last_offset_delta + 1))
    assert header.record_count == len(records)
    assert header.max_timestamp == max(record.timestamp for record in records)
    return [(record.timestamp, record.key, record.value) for record in records]


def seen(rows: list[Row], magic: int) -> list[Row]:
    """The rows as a consumer gets them: format 0 has no timestamps."""
    return rows if magic else [(-1, key, value) for _, key, value in rows]


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2**62), st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)
        ),
        min_size=1,
        max_size=20,
    )
)
def test_up_convert_returns_the_records_of_kafka_python(magic: int, codec: int, rows: list[Row]) -> None:
    batch = converted(by_kafka_python(rows, magic, codec))
    assert rows_of(batch) == seen(rows, magic)
    assert parse_header(batch).codec == codec


@for_each("codec", [0, GZIP, SNAPPY, LZ4])
@for_each("magic", [0, 1])
def test_up_convert_of_many_large_and_small_messages(magic: int, codec: int) -> None:
    rows: list[Row] = [(index * 7 % 1000, None, bytes(index % 300)) for index in range(3 * MESSAGES_PER_STEP)]
    rows += [(5, b"k" * 9000, b"v" * 300_000), (2**40, None, b"v" * 128), *rows]
    rows += [(1, None, b"x")] * 9000
    assert rows_of(converted(by_kafka_python(rows, magic, codec))) == seen(rows, magic)


@for_each("magic", [0, 1])
@for_each("target", [0, 1, 2, 3, 4])
def test_up_convert_compresses_with_the_codec_of_the_topic(magic: int, target: int) -> None:
    conversion = DEFAULT._replace(codec_id=target, level=None)
    for codec in (0, GZIP):
        batch = converted(by_kafka_python(ROWS, magic, codec), conversion)
        assert parse_header(batch).codec == target
        assert rows_of(batch) == seen(ROWS, magic)


def test_up_convert_passes_small_pieces_to_a_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the event loop one piece is compressed in one step."""
    sizes: list[int] = []

    class Recording(GzipCodec):
        def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
            for piece in pieces:
                sizes.append(len(piece))
                yield from super().pack((piece,), level)

    monkeypatch.setattr(compression, "_codecs", {GZIP: Recording()})
    converted(
        plain_set([(1, None, bytes(10 * PACKED_PIECE_BYTES)), (1, None, b"x")], 1),
        DEFAULT._replace(codec_id=GZIP),
    )
    assert sum(sizes) > 10 * PACKED_PIECE_BYTES
    assert max(sizes) == PACKED_PIECE_BYTES


@for_each("magic", [0, 1])
@for_each("first_offset", [-5, 7, 2**40])
def test_up_convert_ignores_the_offsets_of_the_producer(magic: int, first_offset: int) -> None:
    messages = plain_set(ROWS, magic, first_offset)
    assert rows_of(converted(messages)) == seen(ROWS, magic)
    assert rows_of(converted(wrapper(messages, magic, GZIP, 3))) == seen(ROWS, magic)


def test_up_convert_takes_the_timestamp_of_a_wrapper_with_log_append_time() -> None:
    messages = wrapper(plain_set(ROWS, 1), 1, GZIP, 0, 77, attributes=TIMESTAMP_TYPE_BIT)
    assert [row[0] for row in rows_of(converted(messages))] == [77] * 3


def test_up_convert_of_extreme_timestamps_wraps_as_java_does() -> None:
    rows: list[Row] = [(LONG_AGO, None, b"a"), (2**63 - 1, None, b"b")]
    assert rows_of(converted(plain_set(rows, 1))) == rows


def test_up_convert_says_every_record_at_fault() -> None:
    with pytest.raises(InvalidRecord, match="record 1: there is no key") as keys:
        converted(plain_set([*ROWS, (1, None, b"")], 1), KEYS)
    assert [error.batch_index for error in keys.value.record_errors] == [1, 3]
    with pytest.raises(InvalidTimestamp, match="timestamp 1005 is not between 990 and 1004") as times:
        converted(wrapper(plain_set([*ROWS, (5, b"", b"")], 1), 1, LZ4), LIMITS)
    assert [error.batch_index for error in times.value.record_errors] == [2, 3]


def test_up_convert_takes_an_empty_key_for_one() -> None:
    with pytest.raises(InvalidTimestamp):
        converted(
            plain_set([(5, b"", b"")], 1), LIMITS._replace(rules=LIMITS.rules._replace(keys_required=True))
        )


def test_up_convert_of_format_0_has_no_timestamps_to_refuse() -> None:
    assert rows_of(converted(plain_set(ROWS, 0), LIMITS)) == seen(ROWS, 0)


def test_up_convert_for_log_append_time_ignores_timestamps_but_not_their_type() -> None:
    assert rows_of(converted(plain_set(ROWS, 1), APPEND_TIME)) == ROWS
    append_time = plain_set(ROWS, 1, attributes=TIMESTAMP_TYPE_BIT)
    with pytest.raises(InvalidTimestamp, match="LogAppendTime"):
        converted(append_time, APPEND_TIME)
    assert rows_of(converted(append_time)) == ROWS
    eight: list[Row] = [(TIMESTAMP_TYPE_BIT, None, b"")]
    with pytest.raises(InvalidTimestamp, match="LogAppendTime") as error:
        converted(plain_set(eight, 1) + plain_set(eight, 1, attributes=TIMESTAMP_TYPE_BIT), APPEND_TIME)
    assert [each.batch_index for each in error.value.record_errors] == [1]
    with pytest.raises(InvalidTimestamp, match="LogAppendTime"):
        converted(plain_set([(-1, None, b"")], 1, attributes=TIMESTAMP_TYPE_BIT))


@for_each("magic", [0, 1])
def test_up_convert_of_the_smallest_message(magic: int) -> None:
    assert rows_of(converted(plain_set([(7, None, None)], magic))) == seen([(7, None, None)], magic)


# A varint of two bytes ends there.
@for_each("size", [63, 64, *range(8170, 8194)])
def test_up_convert_of_fields_and_records_of_each_size_near_that_of_a_longer_varint(size: int) -> None:
    rows: list[Row] = [(0, b"k", bytes(size)), (size, bytes(size), None), (2 * size, None, b"v")]
    assert rows_of(converted(plain_set(rows, 1))) == rows


def test_up_convert_returns_a_batch_of_no_producer_and_no_leader() -> None:
    header = parse_header(converted(plain_set(ROWS, 1)))
    assert header.leader_epoch == -1
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.base_timestamp == ROWS[0][0]


def test_source_codec_is_that_of_a_message_which_has_attributes() -> None:
    messages = wrapper(plain_set(ROWS, 1), 1, GZIP, attributes=TIMESTAMP_TYPE_BIT)
    assert [source_codec(messages[:size]) for size in range(20)] == [0] * 18 + [GZIP] * 2
    assert source_codec(wrapper(plain_set(ROWS, 1), 1, LZ4)) == LZ4


ONE = plain_set(ROWS[:1], 1)
LARGE = plain_set([(1, None, bytes(5000))], 1)
PLACE = struct.Struct(">qi")


# As by Apache Kafka 3.9.1 (tests/clients/test_message_sets.py).
@for_each("magic", [0, 1])
@for_each("wrapped", [False, True])
@for_each(
    "rest",
    [ONE[:1], ONE[:11], ONE[:12], ONE[:16], ONE[:17], ONE[:-1], LARGE[:100], ONE[:16] + b"\2"],
    ids=repr,
)
def test_up_convert_ignores_a_cut_message_behind_others(magic: int, wrapped: bool, rest: bytes) -> None:
    messages = plain_set(ROWS, magic)
    limited = DEFAULT._replace(max_bytes=4000)
    assert rows_of(converted(messages + rest, limited)) == seen(ROWS, magic)
    cut_inside = wrapper(messages + rest, magic, GZIP) if wrapped else wrapper(messages, magic, GZIP) + rest
    assert rows_of(converted(cut_inside, limited)) == seen(ROWS, magic)


def test_up_convert_ignores_the_format_of_a_cut_message_in_a_wrapper() -> None:
    cut = wrapper(plain_set(ROWS, 1) + ONE[:16] + b"\7", 1, GZIP)
    assert rows_of(converted(cut)) == ROWS


@for_each(
    ("messages", "cut"),
    [(b"", True), (b"x", True), (bytes(11), True), (ONE[:16], True), (ONE[:-1], True), (ONE, False)],
)
def test_is_cut_finds_whether_the_first_message_is_whole(messages: bytes, cut: bool) -> None:
    assert is_cut(messages) is cut
    assert is_cut(messages, wrapped=True) is cut


def with_crc(message: bytes) -> bytes:
    """The message with the CRC-32 of what is in it."""
    return message[:12] + zlib.crc32(message[16:]).to_bytes(4, "big") + message[16:]


REFUSED: dict[str, tuple[bytes, type[BrokerError], str]] = {
    "a key beyond its message": (
        with_crc(ONE[:26] + b"\0\0\1\0" + ONE[30:]), InvalidRecord, "key and value of message 0 do not end",
    ),
    "nothing": (b"", InvalidRecord, "0 bytes hold no message"),
    "half a message": (ONE[:-1], InvalidRecord, "no message is whole"),
    "half a wrapper": (wrapper(ONE, 1, GZIP)[:-1], InvalidRecord, "the message is cut"),
    "zeros behind a message": (ONE + bytes(12), CorruptBatch, "cannot have 12 bytes"),
    "a small size behind a message": (ONE + PLACE.pack(0, 13), CorruptBatch, "cannot have 25 bytes"),
    "a batch": (ONE[:16] + b"\2" + ONE[17:], CorruptBatch, "format 2 is none of messages"),
    "format 3": (ONE[:16] + b"\3" + ONE[17:], CorruptBatch, "format 3 is none of messages"),
    "a small message": (ONE + PLACE.pack(0, 21) + b"\0\0\0\0\1" + bytes(16), CorruptBatch, "have 33 bytes"),
    "format 3 behind a message": (ONE + ONE[:16] + b"\3", CorruptBatch, "has format 3"),
    "zeros behind a wrapper": (wrapper(ONE, 1, GZIP) + bytes(12), CorruptBatch, "cannot have 12 bytes"),
    "zeros in a wrapper": (wrapper(ONE + bytes(12), 1, GZIP), InvalidRecord, "cannot have 12 bytes"),
    "a wrong CRC": (ONE[:12] + b"0" + ONE[13:], CorruptBatch, f"CRC-32 is not 0x30{ONE[13:16].hex()}"),
    "a wrong CRC of a wrapper": (wrapper(ONE, 1, GZIP)[:-1] + b"0", CorruptBatch, "CRC-32"),
    "a wrong CRC inside": (wrapper(ONE[:-1] + b"0", 1, GZIP), CorruptBatch, "CRC-32"),
    "no size": (bytes(100), CorruptBatch, "cannot have 12 bytes"),
    "a negative size": (bytes(8) + b"\xff" * 4 + bytes(100), CorruptBatch, "cannot have 11 bytes"),
    "formats 1 and 0": (ONE + plain_set(ROWS, 0), InvalidRecord, "message 1 has format 0, the first one 1"),
    "formats 0 and 1": (plain_set(ROWS, 0) + ONE, InvalidRecord, "message 3 has format 1, the first one 0"),
    "format 0 inside of 1": (wrapper(plain_set(ROWS, 0), 1, GZIP), InvalidRecord, "has format 0"),
    "format 1 inside of 0": (wrapper(ONE, 0, GZIP), InvalidRecord, "has format 1"),
    "two wrappers": (wrapper(ONE, 1, GZIP) * 2, InvalidRecord, "the only one"),
    "a wrapper behind a message": (ONE + wrapper(ONE, 1, GZIP), InvalidRecord, "the only one"),
    "a wrapper in a wrapper": (wrapper(wrapper(ONE, 1, GZIP), 1, GZIP), InvalidRecord, "compressed itself"),
    "an empty wrapper": (wrapper(b"", 1, GZIP), InvalidRecord, "no message is whole"),
    "half a message in a wrapper": (wrapper(ONE[:-1], 1, GZIP), InvalidRecord, "no message is whole"),
    "a wrapper without a value": (
        plain_set([(1, None, None)], 1, attributes=GZIP), InvalidRecord, "has no value",
    ),
    "nonsense in a wrapper": (plain_set([(1, None, b"no")], 1, attributes=GZIP), InvalidRecord, "gzip"),
    "zstd": (wrapper(ONE, 1, 4), UnsupportedCompression, "format 1 cannot have compression codec 4"),
    "codec 7": (plain_set(ROWS[:1], 0, attributes=7), UnsupportedCompression, "codec 7"),
}  # fmt: skip


@for_each(("messages", "error", "reason"), REFUSED.values(), ids=REFUSED)
def test_up_convert_refuses(messages: bytes, error: type[BrokerError], reason: str) -> None:
    with pytest.raises(error, match=reason):
        converted(messages)


def test_up_convert_enforces_max_bytes_on_each_message_and_on_the_batch() -> None:
    one: list[Row] = [(1, None, bytes(500))]
    size = len(plain_set(one, 1))
    assert rows_of(converted(plain_set(one, 1), DEFAULT._replace(max_bytes=600))) == one
    with pytest.raises(
        MessageTooLarge, match=f"a message of {size} bytes exceeds max.message.bytes={size - 1}"
    ):
        converted(plain_set(one, 1), DEFAULT._replace(max_bytes=size - 1))
    with pytest.raises(MessageTooLarge, match="as one record batch"):
        converted(plain_set(one * 2, 1), DEFAULT._replace(max_bytes=size + 100))
    batch = converted(plain_set(one * 2, 1))
    assert converted(plain_set(one * 2, 1), DEFAULT._replace(max_bytes=len(batch))) == batch
    with pytest.raises(MessageTooLarge, match="as one record batch"):
        converted(plain_set(one * 2, 1), DEFAULT._replace(max_bytes=len(batch) - 1))
    packed = wrapper(plain_set(one * 2, 1), 1, SNAPPY)
    assert rows_of(converted(packed, DEFAULT._replace(max_bytes=len(packed), codec_id=4))) == one * 2
    packed = wrapper(plain_set(one * 2, 1), 1, GZIP)
    with pytest.raises(MessageTooLarge, match="a message of"):
        converted(packed, DEFAULT._replace(max_bytes=len(packed) - 1))
    with pytest.raises(MessageTooLarge, match="as one record batch"):
        converted(packed, DEFAULT._replace(max_bytes=len(packed) + 200, codec_id=0))


def test_up_convert_takes_a_wrapped_message_of_16_mib_where_the_topic_has_a_lower_limit() -> None:
    limited = DEFAULT._replace(max_bytes=MIB)
    head = len(plain_set([(1, None, b"")], 1))
    rows: list[Row] = [(1, None, bytes(16 * MIB - head))]
    assert rows_of(converted(wrapper(plain_set(rows, 1), 1, GZIP), limited)) == rows
    rows = [(1, None, bytes(16 * MIB - head + 1))]
    with pytest.raises(MessageTooLarge, match=f"a message of {16 * MIB + 1} bytes"):
        converted(wrapper(plain_set(rows, 1), 1, GZIP), limited)


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_up_convert_of_a_bomb_takes_little_memory(codec: int) -> None:
    """A wrapper of 64 MiB that is a message too large for the topic is not held."""
    bomb = wrapper(plain_set([(1, None, bytes(64 * MIB))], 1), 1, codec)
    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLarge):
            converted(bomb, DEFAULT._replace(max_bytes=MIB, codec_id=0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MIB


@given(
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from([0, GZIP, SNAPPY, LZ4]),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 10_000),
)
def test_up_convert_of_changed_bytes_raises_nothing_but_broker_errors(
    magic: int, codec: int, changes: list[tuple[int, int]], cut: int
) -> None:
    messages = bytearray(by_kafka_python(ROWS, magic, codec))
    for at, byte in changes:
        messages[at % len(messages)] = byte
    try:
        rows_of(converted(bytes(messages[: cut or None])))
    except BrokerError:
        return
