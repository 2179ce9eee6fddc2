"""The Java client of many ages, with the settings that it comes with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from .brokers import AGAINST_KAFKA
from .java_programs import run_java
from .lines import lines_of, lines_read_back
from .payloads import ODD_PAYLOADS, Payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .brokers import Broker

NEWEST = "4.3.1"
OLD = pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka 4 refuses clients that are older than 2.1")
# Those that speak record batches v2; idempotence is their default from 3.0 on.
OLDER = ["2.8.2", pytest.param("1.1.1", marks=OLD), pytest.param("0.11.0.3", marks=OLD)]
# The last one that speaks message format 1; those before wait for a group coordinator even without a group.
BEFORE_BATCHES = "0.10.2.2"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("release", [NEWEST, "3.9.1", *OLDER])
def test_with_its_defaults(release: str, broker: Broker, topic: str) -> None:
    _assert_round_trip(release, broker, topic)


@pytest.mark.parametrize("release", OLDER)
def test_an_older_one_with_idempotence(release: str, broker: Broker, topic: str) -> None:
    _assert_round_trip(
        release,
        broker,
        topic,
        "enable.idempotence=true",
        "acks=all",
        "max.in.flight.requests.per.connection=1",
    )


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str, broker: Broker, topic: str) -> None:
    _assert_round_trip(NEWEST, broker, topic, f"compression.type={codec}", "linger.ms=20")


def test_without_acknowledgement_by_others(broker: Broker, topic: str) -> None:
    _assert_round_trip(NEWEST, broker, topic, "acks=1", "enable.idempotence=false")


@pytest.mark.parametrize("release", [NEWEST, "3.9.1"])
def test_the_admin_client_leads_a_topic_through_its_life(release: str, broker: Broker, topic: str) -> None:
    assert run_java("Topics", release, [broker.bootstrap, topic]).splitlines() == [
        "listed true",
        "again TopicExistsException",
        "partitions 3 with id true",
        f"nodes [{broker.bootstrap}]",
        "latest {0=0, 1=3}",
        "earliest {0=0, 1=0}",
        "at 2000 {0=-1, 1=1}",
        "newest {0=-1, 1=2}",
        "listed false",
        "gone UnknownTopicOrPartitionException",
    ]


@pytest.mark.parametrize("release", [NEWEST, "3.9.1"])
def test_a_record_without_a_key_is_the_one_that_is_blamed(release: str, broker: Broker, topic: str) -> None:
    compacted = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([compacted])[topic].result(30)
    printed = run_java("RecordErrors", release, [broker.bootstrap, topic, "a", "null", "b", "null"])
    exceptions = [line.split(":")[0] for line in printed.splitlines()]
    assert exceptions == ["KafkaException", "InvalidRecordException"] * 2


@OLD
def test_a_client_from_before_record_batches_reads(broker: Broker, topic: str) -> None:
    payloads = [Payload(f"key {n}".encode(), f"value {n}".encode(), (), 1000 + n) for n in range(100)]
    _assert_round_trip(NEWEST, broker, topic, "compression.type=lz4", "linger.ms=20", payloads=payloads)
    printed = run_java("Read", BEFORE_BATCHES, [broker.bootstrap, topic, "100"])
    assert printed.splitlines() == [f"{n} key {n} value {n}" for n in range(100)]


@OLD
@pytest.mark.parametrize("release", [BEFORE_BATCHES, "0.9.0.1", "0.8.2.2"])
def test_a_client_from_before_record_batches_writes_with_each_codec(
    release: str, broker: Broker, topic: str
) -> None:
    codecs = CODECS[:4]
    printed = run_java("Write", release, [broker.bootstrap, topic, *codecs])
    assert printed.split() == [str(offset) for offset in range(2 * len(codecs))]
    read = run_java("Read", BEFORE_BATCHES, [broker.bootstrap, topic, str(2 * len(codecs))])
    assert read.splitlines() == [
        f"{2 * number + half} {codec} {value}"
        for number, codec in enumerate(codecs)
        for half, value in enumerate(("first", "second"))
    ]


def _assert_round_trip(
    release: str, broker: Broker, topic: str, *settings: str, payloads: Sequence[Payload] = ODD_PAYLOADS
) -> None:
    printed = run_java("RoundTrip", release, [broker.bootstrap, topic, *settings], lines_of(payloads))
    assert printed == lines_read_back(payloads)
