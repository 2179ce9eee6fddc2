"""The Java client of many ages, with the settings that it comes with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S

from .brokers import AGAINST_KAFKA
from .java_programs import run_java
from .lines import lines_of, lines_read_back
from .payloads import ODD_PAYLOADS, Payload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .brokers import Broker

NEWEST = "4.4.0"
OLD = pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka 4 refuses clients that are older than 2.1")
BOTH = [NEWEST, pytest.param("3.9.1", marks=pytest.mark.long)]
# Those that speak record batches v2; idempotence is their default from 3.0 on.
OLDER = [
    pytest.param("2.8.2", marks=pytest.mark.long),
    pytest.param("1.1.1", marks=OLD),
    pytest.param("0.11.0.3", marks=[OLD, pytest.mark.long]),
]
# The first one is the last that speaks message format 1; those before it wait for a group coordinator
# even without a group.
BEFORE_BATCHES = ("0.10.2.2", "0.9.0.1", "0.8.2.2")
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("release", BOTH)
def test_with_its_defaults_with_every_codec_and_without_acknowledgement_by_others(
    release: str, broker: Broker, topic: str
) -> None:
    runs = {
        "defaults": [],
        "unacknowledged": ["acks=1", "enable.idempotence=false"],
        **{codec: [f"compression.type={codec}", "linger.ms=20"] for codec in CODECS},
    }
    _assert_round_trips(release, broker, topic, runs)


@pytest.mark.parametrize("release", OLDER)
def test_an_older_one_with_its_defaults_and_with_idempotence(
    release: str, broker: Broker, topic: str
) -> None:
    idempotence = ["enable.idempotence=true", "acks=all", "max.in.flight.requests.per.connection=1"]
    _assert_round_trips(release, broker, topic, {"defaults": [], "idempotence": idempotence})


@pytest.mark.parametrize("release", BOTH)
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


@pytest.mark.parametrize("release", BOTH)
def test_a_record_without_a_key_is_the_one_that_is_blamed(release: str, broker: Broker, topic: str) -> None:
    compacted = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([compacted])[topic].result(DEADLINE_S)
    printed = run_java("RecordErrors", release, [broker.bootstrap, topic, "a", "null", "b", "null"])
    exceptions = [line.split(":")[0] for line in printed.splitlines()]
    assert exceptions == ["KafkaException", "InvalidRecordException"] * 2


@OLD
@pytest.mark.parametrize(
    "releases", [BEFORE_BATCHES[:1], pytest.param(BEFORE_BATCHES, marks=pytest.mark.long)]
)
def test_clients_from_before_record_batches_write_with_each_codec_and_read(
    releases: Sequence[str], broker: Broker, topic: str
) -> None:
    codecs = CODECS[:4]
    count = 2 * len(codecs)
    for number, release in enumerate(releases):
        printed = run_java("Write", release, [broker.bootstrap, topic, *codecs])
        assert printed.split() == [str(number * count + offset) for offset in range(count)]
    written = [f"{codec} {value}" for codec in codecs for value in ("first", "second")] * len(releases)
    assert _read_before_batches(broker, topic, len(written)) == written


@OLD
def test_a_client_from_before_record_batches_reads_them(broker: Broker, topic: str) -> None:
    payloads = [Payload(f"key {n}".encode(), f"value {n}".encode(), (), 1000 + n) for n in range(100)]
    _assert_round_trips(
        NEWEST, broker, topic, {"batches": ["compression.type=lz4", "linger.ms=20"]}, payloads
    )
    expected = [f"key {n} value {n}" for n in range(len(payloads))]
    assert _read_before_batches(broker, f"{topic}-batches", len(payloads)) == expected


def _read_before_batches(broker: Broker, topic: str, count: int) -> list[str]:
    """Keys and values that such a client reads, from offset 0 on without a gap."""
    read = run_java("Read", BEFORE_BATCHES[0], [broker.bootstrap, topic, str(count)])
    lines = [line.partition(" ") for line in read.splitlines()]
    assert [offset for offset, _, _ in lines] == [str(offset) for offset in range(count)]
    return [rest for _, _, rest in lines]


def _assert_round_trips(
    release: str,
    broker: Broker,
    topic: str,
    runs: Mapping[str, Sequence[str]],
    payloads: Sequence[Payload] = ODD_PAYLOADS,
) -> None:
    """Each run has settings of its own, and a topic; one JVM does them all."""
    topics = [f"{topic}-{name}" for name in runs]
    words = [
        word for name, settings in zip(topics, runs.values(), strict=True) for word in ("--", name, *settings)
    ]
    printed = run_java("RoundTrip", release, [broker.bootstrap, *words[1:]], lines_of(payloads))
    assert printed == "".join(f"{lines_read_back(payloads)}end of {name}\n" for name in topics)
