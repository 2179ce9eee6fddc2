"""Logs of Apache Kafka before 0.11: Apache Kafka 3.9.1 and tidelog open and serve the same files alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as PythonPartition

from tests.bad_input.raw_client import RawClient, produce
from tests.bad_input.requests import ask
from tests.deadlines import DEADLINE_S
from tests.kernel.records.message_sets import GZIP, LZ4, SNAPPY, Row, plain_set, wrapper
from tests.peers import OLD_PROTOCOLS_KAFKA, KafkaServer, find_kafka
from tidelog.kernel.records.batch import TIMESTAMP_TYPE_BIT
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .brokers import running_broker
from .test_message_sets import fetched, messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long

TOPIC = "old"
NOW = 1_700_000_000_000
KEEP = {"log.retention.ms": "-1"}
ROWS: list[Row] = [(NOW, b"key", b"value"), (NOW + 9, b"", None), (NOW + 5, b"other", b"x" * 700)]


def packed(magic: int, codec: int, first: int, time: int = NOW + 9, *, attributes: int = 0) -> bytes:
    """A compressed message with ROWS from an offset on, each format with its own kind of offsets inside."""
    inner = plain_set(ROWS, magic, 0 if magic else first)
    return wrapper(inner, magic, codec, first + 2, time, attributes=attributes)


SEGMENTS: dict[int, bytes] = {
    0: b"".join(
        [
            plain_set(ROWS, 0),
            *(packed(0, codec, first) for first, codec in ((3, GZIP), (6, SNAPPY), (9, LZ4))),
            plain_set(ROWS, 1, 12),
            *(packed(1, codec, first) for first, codec in ((15, GZIP), (18, SNAPPY), (21, LZ4))),
            packed(1, GZIP, 24, NOW + 12, attributes=TIMESTAMP_TYPE_BIT),
        ]
    ),
    30: b"".join(
        [
            plain_set([(NOW + 20, b"late", b"value"), (NOW + 20, None, None)], 1, 30),
            bytes(make_batch([b"a", b"b"], 32, timestamps=[NOW + 30, NOW + 31])),
            plain_set([(NOW + 40, b"after", b"a batch")], 1, 34),
            packed(0, GZIP, 35),
            plain_set([(0, None, None)], 0, 38),
        ]
    ),
}
END = 39
VALUES = [row[2] for row in ROWS]
WANTED: list[tuple[int, bytes | None]] = [
    *zip(range(16, 27), (VALUES * 4)[1:], strict=True),
    *zip(range(30, END), [b"value", None, b"a", b"b", b"a batch", *VALUES, None], strict=True),
]
"""Offsets and values from the second one in a compressed message on."""


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawClient, RawClient]]:
    """Apache Kafka 3.9.1 and tidelog, each started on the same segments after an unclean stop."""
    kafka = KafkaServer(find_kafka(OLD_PROTOCOLS_KAFKA), tmp_path_factory.mktemp("older"), KEEP)
    with running_broker(tmp_path_factory.mktemp("ours")) as ours:
        try:
            kafka.start()
            for broker in (kafka, ours):
                client = RawClient(broker.bootstrap, "first")
                client.create(TOPIC, partitions=1)
                client.close()
                # Killed, Apache Kafka may lack the file with the topic's id.
                broker.stop()
                (broker.data_dir / ".kafka_cleanshutdown").unlink()
                write_segments(broker.data_dir / f"{TOPIC}-0")
                broker.start()
            both = RawClient(kafka.bootstrap, "second"), RawClient(ours.bootstrap, "second")
            yield both
            for client in both:
                client.close()
        finally:
            kafka.stop()


def write_segments(directory: Path) -> None:
    """Replace the log by SEGMENTS, without indexes."""
    for path in directory.iterdir():
        if path.suffix in (".log", ".index", ".timeindex"):
            path.unlink()
    for base, content in SEGMENTS.items():
        (directory / f"{base:020}.log").write_bytes(content)


def test_new_fetch_versions_return_the_log_as_it_is(clients: tuple[RawClient, RawClient]) -> None:
    for version in (4, 7, 11):
        for offset in (0, 4, 16, 25, 30, 33, 36, 38):
            kafka, tidelog = [fetched(client, TOPIC, version, offset) for client in clients]
            assert tidelog
            assert (version, offset, tidelog) == (version, offset, kafka)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_fetch_versions_return_the_messages_that_kafka_returns(
    version: int, clients: tuple[RawClient, RawClient]
) -> None:
    kafka, tidelog = [read_with(client, version) for client in clients]
    assert len(tidelog) == END - 3  # the offsets 27 to 29 are in neither segment
    assert tidelog == kafka


def read_with(client: RawClient, version: int) -> list[Any]:
    """All messages, by as many fetches as it takes; Kafka repeats compressed ones from their first on."""
    rows: list[Any] = []
    while found := [
        row for row in messages(fetched(client, TOPIC, version, len(rows) and rows[-1][2] + 1))
        if not rows or row[2] > rows[-1][2]
    ]:  # fmt: skip
        rows += found
    return rows


@pytest.mark.parametrize(
    "timestamp", [-3, -2, -1, 0, NOW, NOW + 1, NOW + 9, NOW + 10, NOW + 20, NOW + 31, NOW + 40, NOW + 41]
)
def test_list_offsets_finds_messages_in_compressed_ones(
    timestamp: int, clients: tuple[RawClient, RawClient]
) -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[partition])
    request = ask(apis.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic]))
    kafka, tidelog = [client.ask_well(request).topics[0].partitions[0] for client in clients]
    assert (tidelog.offset, tidelog.timestamp) == (kafka.offset, kafka.timestamp)


@pytest.mark.parametrize("api_version", [(0, 8, 2), (0, 10)])
def test_kafka_python_reads_from_the_middle_of_a_compressed_message(
    api_version: tuple[int, ...], clients: tuple[RawClient, RawClient]
) -> None:
    _, tidelog = clients
    consumer = KafkaConsumer(
        bootstrap_servers=tidelog.bootstrap,
        api_version=api_version,
        consumer_timeout_ms=int(DEADLINE_S * 1000),
    )
    consumer.assign([PythonPartition(TOPIC, 0)])
    consumer.seek(PythonPartition(TOPIC, 0), 16)
    assert [(record.offset, record.value) for record in (next(consumer) for _ in WANTED)] == WANTED
    consumer.close()


def test_confluent_kafka_reads_from_the_middle_of_a_compressed_message(
    clients: tuple[RawClient, RawClient],
) -> None:
    _, tidelog = clients
    settings = {"bootstrap.servers": tidelog.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 16)])
    read = consumer.consume(len(WANTED), DEADLINE_S)
    assert [(message.offset(), message.value()) for message in read] == WANTED
    consumer.close()


def test_new_batches_are_appended_behind_old_messages(clients: tuple[RawClient, RawClient]) -> None:
    bases: list[int] = []
    for client in clients:
        sent = ask(apis.PRODUCE, 9, produce(TOPIC, bytes(make_batch([b"new"], timestamps=[NOW + 50]))))
        bases.append(client.ask_well(sent).responses[0].partition_responses[0].base_offset)
    assert bases == [END, END]
