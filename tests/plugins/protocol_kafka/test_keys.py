"""No key of Kafka's is a surprise: each is offered, explained or refused in words of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.config.bundle import BUNDLE
from tests.tables import for_each
from tidelog.kernel.config import ConfigKey, declared_keys
from tidelog.kernel.config.unsupported import Judgement, UnsupportedKey, UnsupportedKeys
from tidelog.plugins.cleaner import keys as cleaner
from tidelog.plugins.protocol_kafka.keys import UNSUPPORTED

# The broker's static keys of Kafka's 4.4 line, one per line.
KAFKA_BROKER_KEYS = (Path(__file__).parent / "kafka_broker_keys.txt").read_text().split()

KAFKA_TOPIC_KEYS = [
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "flush.messages",
    "flush.ms",
    "retention.bytes",
    "retention.ms",
    "max.message.bytes",
    "index.interval.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "file.delete.delay.ms",
    "min.cleanable.dirty.ratio",
    "cleanup.policy",
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "preallocate",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "remote.storage.enable",
    "local.retention.ms",
    "local.retention.bytes",
    "remote.log.copy.disable",
    "remote.copy.lag.ms",
    "remote.copy.lag.bytes",
    "remote.log.delete.on.disable",
    "errors.deadletterqueue.group.enable",
    "internal.segment.bytes",
]


KNOWN = UnsupportedKeys(UNSUPPORTED)


def kafka_broker_key(name: str, text: str) -> Judgement | None:
    """What becomes of a broker key that no plugin declares."""
    return KNOWN.judge(name, text, "broker")


def kafka_topic_key(name: str, text: str) -> Judgement | None:
    """What becomes of a topic key that no plugin declares."""
    return KNOWN.judge(name, text, "topic")


@for_each("name", KAFKA_BROKER_KEYS)
def test_unsupported_keys_include_every_undeclared_broker_key_of_kafka(name: str) -> None:
    assert BUNDLE.find(name, "broker") or kafka_broker_key(name, "x")


@for_each("name", KAFKA_TOPIC_KEYS)
def test_unsupported_keys_include_every_undeclared_topic_key_of_kafka(name: str) -> None:
    assert BUNDLE.find(name, "topic") or kafka_topic_key(name, "x")


@for_each("key", declared_keys(cleaner), ids=str)
def test_unsupported_keys_refuse_compaction_where_its_plugin_is_not_installed(key: ConfigKey[object]) -> None:
    judged = KNOWN.judge(key.name, "0.7", key.scope)
    assert judged == (False, "is a Kafka key that this broker has no part for (compaction)")


OLD_KEYS = [
    "zookeeper.connect",
    "broker.id.generation.enable",
    "log.message.format.version",
    "password.encoder.secret",
]


@pytest.mark.parametrize("name", OLD_KEYS)
def test_unsupported_keys_accept_keys_that_kafka_removed(name: str) -> None:
    judged = kafka_broker_key(name, "x")
    assert judged is not None
    assert judged.accepted


def test_unsupported_keys_exclude_names_that_kafka_does_not_have() -> None:
    assert kafka_broker_key("num.partitons", "1") is None
    assert kafka_topic_key("retention.days", "1") is None


def test_unsupported_keys_have_each_key_once_per_scope() -> None:
    names = [(key.scope, key.name) for key in UNSUPPORTED]
    assert len(set(names)) == len(names)


@for_each("key", [key for key in UNSUPPORTED if key.missing], ids=lambda key: key.name)
def test_a_key_without_a_part_is_refused(key: UnsupportedKey) -> None:
    judged = KNOWN.judge(key.name.replace("*", "x"), "a value that is not neutral", key.scope)
    assert judged is not None
    assert not judged.accepted
