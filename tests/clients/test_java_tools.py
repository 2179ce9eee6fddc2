"""The command line tools of Apache Kafka, with nothing but the address of the broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.peers import run_kafka_tool

if TYPE_CHECKING:
    from .brokers import Broker

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LINES = "one\ntwo\nthree\n"


def _run(tool: str, broker: Broker, *arguments: str, stdin: str | None = None) -> str:
    """What the tool prints; it has to end well."""
    ended = run_kafka_tool(tool, ["--bootstrap-server", broker.bootstrap, *arguments], stdin=stdin)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_lines_through_console_producer_and_console_consumer(broker: Broker, topic: str) -> None:
    _run(PRODUCER, broker, "--topic", topic, stdin=LINES)
    asked = ["--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "3"]
    assert _run(CONSUMER, broker, *asked) == LINES
    told = _run(CONSUMER, broker, *asked, "--formatter-property", "print.offset=true").splitlines()
    assert told == ["Offset:0\tone", "Offset:1\ttwo", "Offset:2\tthree"]


def test_the_offset_shell_tells_first_and_last(broker: Broker, topic: str) -> None:
    _run(PRODUCER, broker, "--topic", topic, stdin=LINES)
    assert _run(OFFSETS, broker, "--topic", topic) == f"{topic}:0:3\n"
    assert _run(OFFSETS, broker, "--topic", topic, "--time", "earliest") == f"{topic}:0:0\n"


def test_topics_are_created_listed_and_deleted(broker: Broker, topic: str) -> None:
    _run(TOPICS, broker, "--create", "--topic", topic, "--partitions", "3")
    assert topic in _run(TOPICS, broker, "--list").splitlines()
    assert "PartitionCount: 3" in _run(TOPICS, broker, "--describe", "--topic", topic)
    _run(TOPICS, broker, "--delete", "--topic", topic)
    assert topic not in _run(TOPICS, broker, "--list").splitlines()


def test_configurations_are_changed_while_topics_are_used(broker: Broker, topic: str) -> None:
    _run(TOPICS, broker, "--create", "--topic", topic, "--config", "flush.ms=5000")
    _run(CONFIGS, broker, "--alter", "--topic", topic, "--add-config", "segment.bytes=2000000")
    told = _run(CONFIGS, broker, "--describe", "--topic", topic)
    assert "segment.bytes=2000000" in told
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000" in told
    assert "flush.ms=5000" in told
    _run(CONFIGS, broker, "--alter", "--topic", topic, "--delete-config", "segment.bytes,flush.ms")
    told = _run(CONFIGS, broker, "--describe", "--topic", topic)
    assert "segment.bytes" not in told
    assert "flush.ms" not in told


def test_the_brokers_own_keys_are_changed_while_it_runs(broker: Broker, topic: str) -> None:
    changed = ["--alter", "--broker-defaults", "--add-config", "log.index.interval.bytes=8192"]
    _run(CONFIGS, broker, *changed)
    told = _run(CONFIGS, broker, "--describe", "--broker-defaults")
    assert "log.index.interval.bytes=8192" in told
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.index.interval.bytes=8192" in told
    _run(TOPICS, broker, "--create", "--topic", topic)
    told = _run(CONFIGS, broker, "--describe", "--all", "--topic", topic)
    assert "index.interval.bytes=8192" in told
    _run(CONFIGS, broker, "--alter", "--broker-defaults", "--delete-config", "log.index.interval.bytes")
    assert "log.index.interval.bytes" not in _run(CONFIGS, broker, "--describe", "--broker-defaults")


def test_quotas_and_credentials_are_set_and_described(broker: Broker) -> None:
    user = ["--entity-type", "users", "--entity-name", "alice"]
    for change in ("producer_byte_rate=1024", "SCRAM-SHA-256=[iterations=8192,password=alice-secret]"):
        _run(CONFIGS, broker, "--alter", *user, "--add-config", change)
    told = _run(CONFIGS, broker, "--describe", *user)
    assert "producer_byte_rate=1024.0" in told
    assert "SCRAM-SHA-256=iterations=8192" in told


def test_topics_grow(broker: Broker, topic: str) -> None:
    _run(TOPICS, broker, "--create", "--topic", topic)
    _run(TOPICS, broker, "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in _run(TOPICS, broker, "--describe", "--topic", topic)


def test_records_are_deleted(broker: Broker, topic: str, tmp_path: Path) -> None:
    _run(PRODUCER, broker, "--topic", topic, stdin=LINES)
    asked = tmp_path / "offsets.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 2}]
    asked.write_text(json.dumps({"partitions": partitions, "version": 1}))
    told = _run(DELETE_RECORDS, broker, "--offset-json-file", str(asked))
    assert f"{topic}-0" in told
    assert "low_watermark: 2" in told
    assert _run(OFFSETS, broker, "--topic", topic, "--time", "earliest") == f"{topic}:0:2\n"


def test_a_group_is_configured(broker: Broker) -> None:
    group = ["--entity-type", "groups", "--entity-name", "readers"]
    _run(CONFIGS, broker, "--alter", *group, "--add-config", "consumer.heartbeat.interval.ms=6000")
    told = _run(CONFIGS, broker, "--describe", *group)
    assert "consumer.heartbeat.interval.ms=6000" in told
    assert "DEFAULT_CONFIG:group.consumer.heartbeat.interval.ms=5000" in told


def test_client_metrics_are_subscribed_to(broker: Broker) -> None:
    metrics = ["--entity-type", "client-metrics", "--entity-name", "slow-clients"]
    changed = "interval.ms=10000,metrics=[org.apache.kafka.producer.,a.],match=[client_id=slow.*]"
    _run(CONFIGS, broker, "--alter", *metrics, "--add-config", changed)
    told = _run(CONFIGS, broker, "--describe", *metrics)
    assert "interval.ms=10000" in told
    assert "metrics=org.apache.kafka.producer.,a." in told
    assert "match=client_id=slow.*" in told
