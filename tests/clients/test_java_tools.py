"""The command line tools of Apache Kafka, with nothing but the address of the broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers import run_kafka_tool

if TYPE_CHECKING:
    from .brokers import Broker

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LINES = "one\ntwo\nthree\n"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(broker: Broker) -> Run:
    """Return a function that returns what a tool prints, as `_run`."""
    return lambda tool, *arguments: _run(tool, broker, *arguments)


def _run(tool: str, broker: Broker, *arguments: str, stdin: str | None = None) -> str:
    """Return what a tool prints, which has to end well."""
    ended = run_kafka_tool(tool, ["--bootstrap-server", broker.bootstrap, *arguments], stdin=stdin)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _produce(broker: Broker, topic: str) -> None:
    _run(PRODUCER, broker, "--topic", topic, stdin=LINES)


def test_lines_through_console_producer_and_console_consumer(broker: Broker, topic: str) -> None:
    _produce(broker, topic)
    asked = ["--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "3"]
    assert _run(CONSUMER, broker, *asked) == LINES
    told = _run(CONSUMER, broker, *asked, "--formatter-property", "print.offset=true").splitlines()
    assert told == ["Offset:0\tone", "Offset:1\ttwo", "Offset:2\tthree"]


def test_the_offset_shell_tells_first_and_last(run: Run, broker: Broker, topic: str) -> None:
    _produce(broker, topic)
    assert run(OFFSETS, "--topic", topic) == f"{topic}:0:3\n"
    assert run(OFFSETS, "--topic", topic, "--time", "earliest") == f"{topic}:0:0\n"


def test_topics_are_created_listed_and_deleted(run: Run, topic: str) -> None:
    run(TOPICS, "--create", "--topic", topic, "--partitions", "3")
    assert topic in run(TOPICS, "--list").splitlines()
    assert "PartitionCount: 3" in run(TOPICS, "--describe", "--topic", topic)
    run(TOPICS, "--delete", "--topic", topic)
    assert topic not in run(TOPICS, "--list").splitlines()


def test_configurations_are_changed_while_topics_are_used(run: Run, topic: str) -> None:
    run(TOPICS, "--create", "--topic", topic, "--config", "flush.ms=5000")
    run(CONFIGS, "--alter", "--topic", topic, "--add-config", "segment.bytes=2000000")
    told = run(CONFIGS, "--describe", "--topic", topic)
    assert "segment.bytes=2000000" in told
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000" in told
    assert "flush.ms=5000" in told
    run(CONFIGS, "--alter", "--topic", topic, "--delete-config", "segment.bytes,flush.ms")
    told = run(CONFIGS, "--describe", "--topic", topic)
    assert "segment.bytes" not in told
    assert "flush.ms" not in told


def test_the_brokers_own_keys_are_changed_while_it_runs(run: Run, topic: str) -> None:
    changed = ["--alter", "--broker-defaults", "--add-config", "log.index.interval.bytes=8192"]
    run(CONFIGS, *changed)
    told = run(CONFIGS, "--describe", "--broker-defaults")
    assert "log.index.interval.bytes=8192" in told
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.index.interval.bytes=8192" in told
    run(TOPICS, "--create", "--topic", topic)
    told = run(CONFIGS, "--describe", "--all", "--topic", topic)
    assert "index.interval.bytes=8192" in told
    run(CONFIGS, "--alter", "--broker-defaults", "--delete-config", "log.index.interval.bytes")
    assert "log.index.interval.bytes" not in run(CONFIGS, "--describe", "--broker-defaults")


def test_loggers_are_listed_set_and_reset(run: Run) -> None:
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    before = run(CONFIGS, "--describe", *loggers)
    level = before.partition("root=")[2].split()[0]
    run(CONFIGS, "--alter", *loggers, "--add-config", "root=DEBUG")
    assert "root=DEBUG" in run(CONFIGS, "--describe", *loggers)
    run(CONFIGS, "--alter", *loggers, "--add-config", f"root={level}")
    assert f"root={level}" in run(CONFIGS, "--describe", *loggers)


def test_quotas_and_credentials_are_set_and_described(run: Run) -> None:
    user = ["--entity-type", "users", "--entity-name", "alice"]
    for change in ("producer_byte_rate=1024", "SCRAM-SHA-256=[iterations=8192,password=alice-secret]"):
        run(CONFIGS, "--alter", *user, "--add-config", change)
    told = run(CONFIGS, "--describe", *user)
    assert "producer_byte_rate=1024.0" in told
    assert "SCRAM-SHA-256=iterations=8192" in told


def test_topics_grow(run: Run, topic: str) -> None:
    run(TOPICS, "--create", "--topic", topic)
    run(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in run(TOPICS, "--describe", "--topic", topic)


def test_delete_records_of_kafkas_tool(run: Run, broker: Broker, topic: str, tmp_path: Path) -> None:
    _produce(broker, topic)
    asked = tmp_path / "offsets.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 2}]
    asked.write_text(json.dumps({"partitions": partitions, "version": 1}))
    told = run(DELETE_RECORDS, "--offset-json-file", str(asked))
    assert f"{topic}-0" in told
    assert "low_watermark: 2" in told
    assert run(OFFSETS, "--topic", topic, "--time", "earliest") == f"{topic}:0:2\n"


def test_a_group_is_configured(run: Run) -> None:
    group = ["--entity-type", "groups", "--entity-name", "readers"]
    run(CONFIGS, "--alter", *group, "--add-config", "consumer.heartbeat.interval.ms=6000")
    told = run(CONFIGS, "--describe", *group)
    assert "consumer.heartbeat.interval.ms=6000" in told
    assert "DEFAULT_CONFIG:group.consumer.heartbeat.interval.ms=5000" in told


def test_client_metrics_are_subscribed_to(run: Run) -> None:
    metrics = ["--entity-type", "client-metrics", "--entity-name", "slow-clients"]
    changed = "interval.ms=10000,metrics=[org.apache.kafka.producer.,a.],match=[client_id=slow.*]"
    run(CONFIGS, "--alter", *metrics, "--add-config", changed)
    told = run(CONFIGS, "--describe", *metrics)
    assert "interval.ms=10000" in told
    assert "metrics=org.apache.kafka.producer.,a." in told
    assert "match=client_id=slow.*" in told
