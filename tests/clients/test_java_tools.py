"""The command line tools of Apache Kafka, with nothing but the address of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.peers import run_kafka_tool

if TYPE_CHECKING:
    from .brokers import Broker

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TOPICS = "org.apache.kafka.tools.TopicCommand"
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
