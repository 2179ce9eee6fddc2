"""Produce requests that ask for what cannot be, and batches that are not what they say."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING

import zstandard

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from . import batches
from .batches import CONTROL, GZIP, LZ4, SNAPPY, TRANSACTIONAL, ZSTD, batch, record, varint
from .case import (
    ALL_VERSIONS,
    CLOSED,
    KAFKA_STUMBLES,
    NO_TRANSACTIONS,
    NOTHING,
    OK,
    SILENT,
    Case,
    Differs,
)
from .raw_client import TIMEOUT_MS, RawClient, produce
from .requests import Sent, ask

if TYPE_CHECKING:
    from typing import Any

    from .case import Sends

MOST = 0x7FFFFFFF
TWO_HOURS_MS = 7_200_000
MAX_MESSAGE_BYTES = 1_048_588
TWO = (b"one", b"two")
COMMIT_MARKER = record(b"\0\0\0\0\0\0", key=b"\0\0\0\1")
CORRUPT, INVALID = "CORRUPT_MESSAGE", "INVALID_RECORD"
ALL_OF_IT = "every batch of a request is appended and answered, where Kafka keeps the last one alone"
BYTES_LOST = "what follows a batch would be lost without a word"
HONEST_CODEC = "the code says what is wrong, where Kafka runs into an exception"
OLD_VERSIONS = "Produce 0 to 2 are served"


def _sends(records: bytes | None, version: int = 9, **fields: Any) -> Sends:
    return lambda client: ask(apis.PRODUCE, version, produce(client.topic, records, **fields))


def _to(topic: str, **fields: Any) -> Sends:
    return lambda _: ask(apis.PRODUCE, 9, produce(topic, batch(), **fields))


def _request(version: int, *topics: TopicProduceData, acks: int = -1, timeout_ms: int = TIMEOUT_MS) -> Sent:
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics))
    return ask(apis.PRODUCE, version, request)


def _by_id(topic_id: bytes | None, partition: int = 0) -> Sends:
    def build(client: RawClient) -> Sent:
        chosen = client.topic_id if topic_id is None else topic_id
        return _request(13, TopicProduceData(topic_id=chosen, partition_data=[_part(partition)]))

    return build


def _part(index: int = 0) -> PartitionProduceData:
    return PartitionProduceData(index=index, records=memoryview(batch()))


def _named(client: RawClient, *partitions: int) -> TopicProduceData:
    return TopicProduceData(name=client.topic, partition_data=[_part(index) for index in partitions])


def _transactional(transactional_id: str | None, attributes: int = TRANSACTIONAL) -> Sends:
    def build(client: RawClient) -> Sent:
        records = batch(attributes=attributes, producer=(client.new_producer_id(), 0, 0))
        return ask(apis.PRODUCE, 9, produce(client.topic, records, transactional_id=transactional_id))

    return build


def _of_size(size: int) -> bytes:
    """A batch of exactly so many bytes, about a million."""
    overhead = len(batch([b"x" * 1_000_000])) - 1_000_000
    return batch([b"x" * (size - overhead)])


def _ahead(client: RawClient) -> Sent:
    time_ms = int(time.time() * 1000) + TWO_HOURS_MS
    return ask(apis.PRODUCE, 9, produce(client.topic, batch(timestamp=time_ms)))


WHOLE = (
    Case("a wrong CRC", _sends(batch(crc=1)), CORRUPT),
    Case("a flipped bit", _sends(batch()[:-3] + b"X" + batch()[-2:]), CORRUPT),
    Case("magic 3", _sends(batch(magic=3)), CORRUPT),
    Case("magic -1", _sends(batch(magic=-1)), CORRUPT),
    Case("magic 1", _sends(batch(magic=1)), INVALID),
    Case("magic 0 in version 3", _sends(batch(magic=0), 3), INVALID),
    Case(
        "magic 1 in version 2",
        _sends(batch(magic=1), 2),
        CLOSED,
        tidelog=Differs(CORRUPT, OLD_VERSIONS),
    ),
    Case("only garbage", _sends(b"\x13" * 200), CORRUPT),
    Case("null for records", _sends(None), SILENT, tidelog=Differs(INVALID, KAFKA_STUMBLES)),
    Case("no bytes for records", _sends(b""), INVALID),
    Case("no bytes for records in version 3", _sends(b"", 3), INVALID),
    Case("two batches", _sends(batch() + batch()), INVALID),
    Case("two batches in version 3", _sends(batch() + batch(), 3), INVALID),
    Case("a good batch, then a corrupt one", _sends(batch() + batch(crc=1)), INVALID),
    Case(
        "7 bytes behind a batch",
        _sends(batch() + b"garbage"),
        OK,
        appends=1,
        tidelog=Differs(INVALID, BYTES_LOST),
    ),
    Case(
        "60 bytes behind a batch",
        _sends(batch() + b"\x7f" * 60),
        CORRUPT,
        tidelog=Differs(INVALID, BYTES_LOST),
    ),
)

LENGTHS = (
    Case("a batch cut in its records", _sends(batch(TWO)[:-4]), INVALID),
    Case("a batch cut in its header", _sends(batch()[:40]), INVALID),
    Case("5 bytes of a batch", _sends(batch()[:5]), INVALID),
    Case("17 bytes of a batch", _sends(batch()[:17]), INVALID),
    Case("a length of 0", _sends(batch(batch_length=0)), CORRUPT),
    Case("a length of 48", _sends(batch(batch_length=48)), CORRUPT),
    Case("a length of only the header", _sends(batch(batch_length=49)), CORRUPT),
    Case("a negative length", _sends(batch(batch_length=-1)), CORRUPT),
    Case(
        "a length of 2^31-1",
        _sends(batch(batch_length=MOST)),
        "UNKNOWN_SERVER_ERROR",
        tidelog=Differs(INVALID, KAFKA_STUMBLES),
    ),
    Case("a length that is one too small", _sends(batch(batch_length=len(batch()) - 13)), CORRUPT),
    Case("a length that is one too large", _sends(batch(batch_length=len(batch()) - 11)), INVALID),
    Case("a batch that is a byte too large", _sends(_of_size(MAX_MESSAGE_BYTES + 1)), "MESSAGE_TOO_LARGE"),
    Case("a batch of the largest size", _sends(_of_size(MAX_MESSAGE_BYTES)), OK, appends=1),
)

COUNTS = (
    Case("a batch without records", _sends(batch([])), INVALID),
    Case("a batch without records, but with a last delta", _sends(batch([], last_offset_delta=0)), INVALID),
    Case("count 0 with a record", _sends(batch(count=0)), INVALID),
    Case("count -1", _sends(batch(count=-1)), INVALID),
    Case("count 2 with last delta 0", _sends(batch(count=2)), INVALID),
    Case("count 2^31-1 with last delta 0", _sends(batch(count=MOST)), INVALID),
    Case("count and last delta of 2^31-1", _sends(batch(count=MOST, last_offset_delta=MOST - 1)), INVALID),
    Case("a last delta that is too large", _sends(batch(last_offset_delta=5)), INVALID),
    Case("a last delta that is too small", _sends(batch(TWO, last_offset_delta=0)), INVALID),
    Case("a negative last delta", _sends(batch(last_offset_delta=-3)), INVALID),
    Case("base offset 7", _sends(batch(base_offset=7)), INVALID),
    Case("base offset -7", _sends(batch(base_offset=-7)), INVALID),
    Case(
        "a record fewer than counted",
        _sends(batch(body=record(b"x" * 20), count=2, last_offset_delta=1)),
        INVALID,
    ),
    Case(
        "a record more than counted",
        _sends(batch(TWO, count=1, last_offset_delta=0)),
        INVALID,
    ),
)

RECORDS = (
    Case(
        "offset deltas with a gap",
        _sends(batch(body=record(b"a") + record(b"b", offset_delta=2), count=2, last_offset_delta=1)),
        OK,
        appends=2,
        tidelog=Differs(INVALID, "the second record would get the offset of the next batch's first one"),
    ),
    *(
        Case(name, _sends(batch(body=body)), INVALID)
        for name, body in (
            ("garbage for records", b"\x7fgarbage"),
            ("a record that is cut short", record(b"0123456789")[:-3]),
            ("bytes behind the last record", record(b"a") + b"behind"),
            ("a record of negative length", varint(-5) + b"1234567"),
        )
    ),
    *(
        Case(
            f"garbage for records that codec {codec} compressed",
            _sends(batch(attributes=codec, body=b"garbage")),
            "UNKNOWN_SERVER_ERROR",
            tidelog=Differs(
                INVALID, "the CRC is right, so it is no failure of the broker, and no use to try again"
            ),
        )
        for codec in (GZIP, SNAPPY, LZ4, ZSTD)
    ),
    Case(
        "compressed, a record fewer than counted",
        _sends(batch(attributes=GZIP, count=2, last_offset_delta=1, body=gzip.compress(record(b"a")))),
        INVALID,
    ),
    Case(
        "compressed, a record more than counted",
        _sends(batch(attributes=GZIP, body=gzip.compress(record(b"a") + record(b"b", offset_delta=1)))),
        INVALID,
    ),
    Case(
        "compressed, an offset delta twice",
        _sends(
            batch(
                attributes=GZIP, count=2, last_offset_delta=1, body=gzip.compress(record(b"a") + record(b"b"))
            )
        ),
        "UNKNOWN_SERVER_ERROR",
        tidelog=Differs(INVALID, "it is what the client sent, and no failure of the broker"),
    ),
)


def _fields(
    *,
    key: bytes = b"\x06key",
    value: bytes = b"\x04vv",
    headers: bytes = b"\0",
    time: bytes = b"\0",
    offset: bytes = b"\0",
) -> bytes:
    """A record of fields that were encoded by somebody else."""
    content = b"\0" + time + offset + key + value + headers
    return varint(len(content)) + content


def _overlong(count: int, last: bytes = b"\0") -> bytes:
    """A varint that takes so many bytes."""
    return b"\x80" * (count - 1) + last


TEN_DAYS_MS = 10 * 24 * 3_600_000
FIELDS = {
    "a key of length -2": (_fields(key=varint(-2)), OK),
    "a value of length -70": (_fields(value=varint(-70)), OK),
    "a header whose value has length -2": (_fields(headers=b"\x02\x02h\x03"), OK),
    "a header whose key has length -1": (_fields(headers=b"\x02\x01\x02h"), INVALID),
    "-1 headers": (_fields(headers=b"\x01"), INVALID),
    "headers that are not there": (_fields(headers=b"\x7e"), INVALID),
    "an offset delta of 5 bytes": (_fields(offset=_overlong(5)), OK),
    "an offset delta of 5 bytes and 35 bits": (_fields(offset=_overlong(5, b"\x70")), OK),
    "an offset delta of 6 bytes": (_fields(offset=_overlong(6)), INVALID),
    "a key length of 6 bytes": (_fields(key=b"\x86" + _overlong(5) + b"key"), INVALID),
    "a timestamp of 10 bytes": (_fields(time=_overlong(10)), OK),
    "a timestamp of 10 bytes and 70 bits": (_fields(time=_overlong(10, b"\x7e")), OK),
    "a timestamp of 11 bytes": (_fields(time=_overlong(11)), INVALID),
    "a record length of 5 bytes": (b"\x96" + _overlong(4) + _fields()[1:], OK),
    "a record length of 6 bytes": (b"\x96" + _overlong(5) + _fields()[1:], INVALID),
    "a timestamp ten days ahead": (_fields(time=varint(TEN_DAYS_MS)), "INVALID_TIMESTAMP"),
    "a timestamp ten days ago": (_fields(time=varint(-TEN_DAYS_MS)), OK),
}
"""Records field by field, and what becomes of them in a batch that is compressed."""

RECORD_FIELDS = tuple(
    Case(
        f"compressed, {name}",
        _sends(batch(attributes=GZIP, body=gzip.compress(content))),
        outcome,
        appends=int(outcome == OK),
    )
    for name, (content, outcome) in FIELDS.items()
)

ZSTD_BATCH = batch(attributes=ZSTD, body=zstandard.compress(record(b"a")))
ATTRIBUTES = (
    *(
        Case(
            f"codec {codec}",
            _sends(batch(attributes=codec)),
            "UNKNOWN_SERVER_ERROR",
            tidelog=Differs("UNSUPPORTED_COMPRESSION_TYPE", HONEST_CODEC),
        )
        for codec in (5, 6, 7)
    ),
    Case("zstd in version 6", _sends(ZSTD_BATCH, 6), "UNSUPPORTED_COMPRESSION_TYPE"),
    Case("zstd in version 7", _sends(ZSTD_BATCH, 7), OK, appends=1),
    Case("unknown attributes", _sends(batch(attributes=0x7F80)), OK, appends=1),
    Case("LogAppendTime chosen by a client", _sends(batch(attributes=batches.APPEND_TIME)), OK, appends=1),
    Case("a delete horizon of a client", _sends(batch(attributes=batches.DELETE_HORIZON)), OK, appends=1),
    Case("a control batch", _sends(batch(attributes=CONTROL)), INVALID),
    Case(
        "a control batch with a marker",
        _sends(batch(attributes=CONTROL, producer=(5, 0, -1), body=COMMIT_MARKER)),
        INVALID,
    ),
    Case(
        "a marker of a transaction",
        _transactional(None, TRANSACTIONAL | CONTROL),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        tidelog=Differs(INVALID, NO_TRANSACTIONS),
    ),
    Case(
        "a transactional batch without a transactional id",
        _transactional(None),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        tidelog=Differs("INVALID_TXN_STATE", NO_TRANSACTIONS),
    ),
    Case(
        "a transactional batch without a producer",
        _sends(batch(attributes=TRANSACTIONAL), transactional_id="payments"),
        OK,
        appends=1,
        tidelog=Differs("INVALID_TXN_STATE", NO_TRANSACTIONS),
    ),
    Case(
        "an ordinary batch with a transactional id",
        _sends(batch(), transactional_id="payments"),
        OK,
        appends=1,
    ),
)

TIMES = (
    Case("a timestamp two hours ahead", _ahead, "INVALID_TIMESTAMP"),
    Case("a timestamp of 2^63-1", _sends(batch(timestamp=2**63 - 1)), "INVALID_TIMESTAMP"),
    Case("a timestamp of -2^63", _sends(batch(timestamp=-(2**63))), "INVALID_TIMESTAMP"),
    Case("a timestamp of 1970", _sends(batch(timestamp=0)), OK, appends=1),
    Case("no timestamp", _sends(batch(timestamp=-1)), OK, appends=1),
    Case("a timestamp of -2", _sends(batch(timestamp=-2)), OK, appends=1),
)

UNKNOWN, UNKNOWN_ID = "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"
TARGETS = (
    Case("a topic that is not there", _to("nowhere"), UNKNOWN),
    Case("a topic name with a slash", _to("a/b"), UNKNOWN),
    Case("no topic name", _to(""), UNKNOWN),
    Case("a topic name of 250 characters", _to("a" * 250), UNKNOWN),
    Case("a topic name of 32,767 odd characters", _to("\1" * 32_767), UNKNOWN),
    Case("a partition that is not there", _sends(batch(), partition=99), UNKNOWN),
    Case("a negative partition", _sends(batch(), partition=-1), UNKNOWN),
    Case("a topic id that is not there", _by_id(bytes(range(16))), UNKNOWN_ID),
    Case("the zero topic id", _by_id(bytes(16)), UNKNOWN_ID),
    Case("a partition that is not there, by topic id", _by_id(None, 9), UNKNOWN),
    Case("a good and a bad partition", lambda s: _request(9, _named(s, 0, 9)), f"{OK},{UNKNOWN}", appends=1),
    Case(
        "a partition twice",
        lambda s: _request(9, _named(s, 0, 0)),
        OK,
        appends=1,
        tidelog=Differs(f"{OK},{OK}", ALL_OF_IT, appends=2),
    ),
    Case(
        "a topic twice",
        lambda s: _request(9, _named(s, 0), _named(s, 0)),
        OK,
        appends=1,
        tidelog=Differs(f"{OK},{OK}", ALL_OF_IT, appends=2),
    ),
    Case("no topic at all", lambda _: _request(9), NOTHING),
    Case("a topic without partitions", lambda s: _request(9, _named(s)), NOTHING),
    Case("a negative timeout", lambda s: _request(9, _named(s, 0), timeout_ms=-1), OK, appends=1),
)

ACKS = (
    Case("acks 2", _sends(batch(), acks=2), "INVALID_REQUIRED_ACKS"),
    Case("acks -2", _sends(batch(), acks=-2), "INVALID_REQUIRED_ACKS"),
    Case("acks 2 for a topic that is not there", _to("nowhere", acks=2), UNKNOWN),
    Case("acks 0", _sends(batch(), acks=0), SILENT, appends=1),
    Case("acks 0 and no topic", lambda _: _request(9, acks=0), SILENT),
    Case("acks 0 and a wrong CRC", _sends(batch(crc=1), acks=0), CLOSED, log="acks=0 failed.*CRC"),
    Case(
        "acks 0 for a topic that is not there", _to("nowhere", acks=0), CLOSED, log="acks=0 failed.*nowhere"
    ),
    Case(
        "acks 0 and null for records",
        _sends(None, acks=0),
        SILENT,
        log="acks=0 failed.*no record batch",
        tidelog=Differs(CLOSED, KAFKA_STUMBLES),
    ),
)

VERSIONS = tuple(
    Case(f"version {version}", _sends(batch(), version), CLOSED, tidelog=Differs(OK, ALL_VERSIONS, appends=1))
    for version in (0, 1, 2)
)

CASES = (*WHOLE, *LENGTHS, *COUNTS, *RECORDS, *RECORD_FIELDS, *ATTRIBUTES, *TIMES, *TARGETS, *ACKS, *VERSIONS)
