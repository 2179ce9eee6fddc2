"""Produce 0 to 2: the same bytes sent to Apache Kafka 3.9.1 and to tidelog are accepted or refused alike.

What was accepted is read back with old and new versions of Fetch, and has to be equal. kafka-python, limited
to the age of each format, writes and reads as well.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from tests.bad_input.raw import RawConnection
from tests.bad_input.raw_client import RawClient, fetch, produce
from tests.bad_input.requests import ask, outcome_of, response_of
from tests.deadlines import DEADLINE_S
from tests.kernel.records.message_sets import GZIP, LZ4, SNAPPY, Row, by_kafka_python, plain_set, wrapper
from tests.peers import OLD_PROTOCOLS_KAFKA, running_kafka
from tidelog.kernel.records.batch import (
    LEAST_MESSAGE_BYTES,
    LOG_OVERHEAD_BYTES,
    TIMESTAMP_TYPE_BIT,
    parse_header,
    parse_message,
)
from tidelog.kernel.records.message_set import iter_messages
from tidelog.kernel.records.record import Record, iter_records
from tidelog.plugins.protocol_kafka.messages import api as apis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .brokers import Broker

NOW = 1_700_000_000_000
FAR = 2**45
ROWS: list[Row] = [(NOW, b"key", b"value"), (NOW - 5, b"", None), (NOW + 7, b"other", b"x" * 700)]
KEYLESS: list[Row] = [(NOW, b"key", b"value"), (NOW, None, b"value")]
FUTURE: list[Row] = [(FAR, b"key", b"value")]
ONE, SET = plain_set(ROWS[:1], 1), plain_set(ROWS, 1)

NO_FUTURE = {"message.timestamp.after.max.ms": "3600000"}
"""The default of later releases."""
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "squeezed": {"compression.type": "gzip"},
    "loose": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "1000"},
    "timely": {"message.timestamp.before.max.ms": "86400000000"},
}
SETS: dict[str, bytes] = {
    **{
        f"format {magic}, codec {codec}": by_kafka_python(ROWS, magic, codec)
        for magic in (0, 1)
        for codec in (0, GZIP, SNAPPY, LZ4)
    },
    **{
        f"{name}, format {magic}, codec {codec}": by_kafka_python(rows, magic, codec)
        for name, rows in (("without key", KEYLESS), ("from the future", FUTURE))
        for magic in (0, 1)
        for codec in (0, GZIP)
    },
    "absolute offsets inside": wrapper(plain_set(ROWS, 1, 40), 1, GZIP, 42),
    "offsets from 7": plain_set(ROWS, 0, 7),
    "LogAppendTime": plain_set(ROWS, 1, attributes=TIMESTAMP_TYPE_BIT),
    "LogAppendTime of a wrapper": wrapper(SET, 1, GZIP, 2, NOW, attributes=TIMESTAMP_TYPE_BIT),
    "no timestamp": plain_set([(-1, b"key", b"value")], 1),
    "a wrong CRC": ONE[:-1] + b"?",
    "a wrong CRC inside": wrapper(ONE[:-1] + b"?", 1, GZIP),
    "formats 0 and 1": plain_set(ROWS, 0) + ONE,
    "format 0 inside of 1": wrapper(plain_set(ROWS, 0), 1, GZIP),
    "two wrappers": wrapper(ONE, 1, GZIP) * 2,
    "a message and a wrapper": ONE + wrapper(ONE, 1, GZIP),
    "a wrapper in a wrapper": wrapper(wrapper(ONE, 1, GZIP), 1, GZIP),
    "an empty wrapper": wrapper(b"", 1, GZIP),
    "no size": bytes(100),
    "nothing": b"",
    "half a message": ONE[:-1],
    **{f"a message and {size} bytes": ONE + SET[:size] for size in (1, 11, 12, 16, 17, 40)},
    **{f"a message and {size} zeros": ONE + bytes(size) for size in (11, 12, 18)},
    **{f"a wrapper and {size} bytes": wrapper(SET, 1, GZIP) + ONE[:size] for size in (1, 12, 17, 40)},
    "zeros behind a wrapper": wrapper(SET, 1, GZIP) + bytes(12),
    "a cut message in a wrapper": wrapper(SET[:-1], 1, GZIP),
    "only a cut message in a wrapper": wrapper(ONE[:-1], 1, GZIP),
    "another format, cut, behind a message": ONE + plain_set(ROWS, 0)[:20],
    "many small ones": by_kafka_python([(NOW, b"k", b"v")] * 40, 1),
    "one large one": by_kafka_python([(NOW, b"k", bytes(2000))], 1),
    "a large one, compressed": by_kafka_python([(NOW, b"k", bytes(2000))], 1, GZIP),
}  # fmt: skip


class Outcome(NamedTuple):
    """What a broker answered, and what its log has then."""

    code: str
    base_offset: int


@pytest.fixture(scope="module")
def clients(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RawClient, RawClient]]:
    """Apache Kafka 3.9.1 and tidelog, each with all topics."""
    with running_kafka(tmp_path_factory.mktemp("older"), version=OLD_PROTOCOLS_KAFKA) as kafka:
        both = RawClient(kafka.bootstrap, "sets"), RawClient(broker.bootstrap, "sets")
        for client in both:
            for name, config in TOPICS.items():
                client.create(name, {**NO_FUTURE, **config}, 1)
        yield both
        for client in both:
            client.close()


def sent(client: RawClient, topic: str, records: bytes, version: int) -> Outcome:
    """Produce, and wait until the leader is there."""
    request = ask(apis.PRODUCE, version, produce(topic, records))
    with RawConnection(client.bootstrap) as connection:
        connection.send(request.data)
        response = response_of(request, connection.frame())
    return Outcome(outcome_of(response), response.responses[0].partition_responses[0].base_offset)


def messages(data: bytes) -> list[Any]:
    """The messages of a set, those in compressed ones, too; Kafka may cut the last one."""
    rows: list[Any] = []
    position = 0
    while len(data) - position >= LEAST_MESSAGE_BYTES[0]:
        size = int.from_bytes(data[position + 8 : position + 12]) + LOG_OVERHEAD_BYTES
        if size > len(data) - position:
            break
        header = parse_message(data, position)
        found = iter_messages(data[position : position + header.size], header)
        rows += [(header.magic, header.is_append_time, *each) for each in found]
        position += header.size
    return rows


def fetched(client: RawClient, topic: str, version: int, offset: int) -> bytes:
    """What a fetch returns; of messages Kafka returns no more bytes than they have in its log."""
    response = client.ask_well(ask(apis.FETCH, version, fetch(topic, offset)))
    return bytes(response.responses[0].partitions[0].records)


def content(client: RawClient, topic: str, version: int) -> list[Any]:
    """All records of a topic as that version of Fetch returns them, with what batches say of themselves."""
    data = fetched(client, topic, version, 0)
    rows: list[Any] = []
    if version < 4:
        while found := [row for row in messages(data) if not rows or row[2] > rows[-1][2]]:
            rows += found
            data = fetched(client, topic, version, rows[-1][2] + 1)
        return rows
    position = 0
    while position < len(data):
        header = parse_header(data, position)
        batch = data[position : position + header.size]
        rows.append((header.base_offset, header.last_offset_delta, header.attributes, header.record_count))
        rows += list(iter_records(batch, header))
        position += header.size
    return rows


@pytest.mark.long
@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_message_sets_have_the_same_outcome(
    topic: str, clients: tuple[RawClient, RawClient]
) -> None:
    kafka, tidelog = clients
    for number, (name, records) in enumerate(SETS.items()):
        version = number % 3
        assert (name, sent(tidelog, topic, records, version)) == (name, sent(kafka, topic, records, version))
    for version in (0, 1, 2, 3, 4, 11):
        ours, theirs = content(tidelog, topic, version), content(kafka, topic, version)
        if topic == "appended":
            ours, theirs = [_timeless(each) for each in ours], [_timeless(each) for each in theirs]
        assert ours
        assert ours == theirs, version


def _timeless(row: Any) -> Any:
    """A record without its timestamp, which is that of the broker's clock."""
    if isinstance(row, Record):
        return row.offset, row.key, row.value
    return row if len(row) == 4 else (*row[:3], *row[4:])


# For lz4 of the first two it wants the package xxhash.
@pytest.mark.parametrize(
    ("api_version", "codec"),
    [
        *[(version, codec) for version in ((0, 8, 2), (0, 9)) for codec in (None, "gzip")],
        *[
            (version, codec)
            for version in ((0, 10), (0, 10, 2), (0, 11), (1, 0))
            for codec in (None, "gzip", "lz4")
        ],
    ],
)
def test_kafka_python_of_each_age_writes_and_reads(
    api_version: tuple[int, ...], codec: str | None, broker: Broker, topic: str
) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "api_version": api_version}
    producing: dict[str, Any] = {"compression_type": codec, "enable_idempotence": False, "linger_ms": 20}
    producer = KafkaProducer(**settings, **producing, acks=1)
    reports = [producer.send(topic, b"%d" % number, b"key", partition=0) for number in range(100)]
    producer.flush(DEADLINE_S)
    assert [report.get(DEADLINE_S).offset for report in reports] == list(range(100))
    producer.close()
    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(**settings, consumer_timeout_ms=int(DEADLINE_S * 1000))) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        assert [next(consumer).value for _ in range(100)] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("api_version", [(0, 8, 2), (0, 10)])
def test_kafka_python_of_each_age_reads_responses_that_are_converted_while_they_are_sent(
    api_version: tuple[int, ...], broker: Broker, topic: str
) -> None:
    newest = KafkaProducer(bootstrap_servers=broker.bootstrap, batch_size=200_000, linger_ms=20)
    values = [b"%d" % number * 5_000 for number in range(100, 400)]
    for value in values:
        newest.send(topic, value, partition=0)
    newest.flush(DEADLINE_S)
    newest.close()
    partition = TopicPartition(topic, 0)
    with closing(
        KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            api_version=api_version,
            max_partition_fetch_bytes=2_000_000,
            consumer_timeout_ms=int(DEADLINE_S * 1000),
        )
    ) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        assert [next(consumer).value for _ in values] == values
