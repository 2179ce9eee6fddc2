"""Odd values of broker keys: Apache Kafka and tidelog take the same ones, at the start and while they run."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest

from tests.clients.java_programs import run_inside_kafka
from tests.kernel.config.bundle import BUNDLE, bundle_config
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_RESOURCE
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import SET

from .asking import Asker, message
from .test_odd_values import BOOLEAN, DOUBLE, INT, LIST, LONG, ODD, SHORT, STRING
from .test_resources import entries

TYPES = {
    "BOOLEAN": BOOLEAN,
    "STRING": STRING,
    "INT": INT,
    "SHORT": SHORT,
    "LONG": LONG,
    "DOUBLE": DOUBLE,
    "LIST": LIST,
}
A_SAMPLE = 3
"""So many values of a key that Kafka does not change while it runs: the value is not looked at."""
_LOAD_FACTOR = "Kafka's cleaner cannot work with a load that is not from 0 to 1"
_NO_UNREAD_LIMIT = "the largest value is a key of Kafka's that nothing reads here"
DIFFERENT_AT_START = {
    "broker.id": "the other name of node.id, which Kafka's configuration has to have as well",
    "connections.max.idle.ms": "Kafka demands more than its delay of failed authentications",
    "*quota.window.num": "each sample is kept for each client: at most 3,600",
    "controller.listener.names": "Kafka needs one of its listeners for controllers",
    "default.replication.factor": "there is one broker; Kafka looks at it when a topic is created",
    "group.consumer.assignors": "names are checked when all plugins are loaded, and then refused",
    "group.max.session.timeout.ms": "a session of 0 ms has ended before it begins",
    "group.min.session.timeout.ms": "a session of 0 ms has ended before it begins",
    "group.share.assignment.interval.ms": _NO_UNREAD_LIMIT,
    "group.streams.assignment.interval.ms": _NO_UNREAD_LIMIT,
    "listener.security.protocol.map": "Kafka's listener for controllers needs a protocol",
    "log.cleaner.io.buffer.load.factor": _LOAD_FACTOR,
    "log.cleaner.threads": "0: no log is rewritten; Kafka divides by it",
    "log.dir": "Kafka refuses a directory that is named twice when it opens it",
    "log.dirs": "Kafka refuses a directory that is named twice when it opens it",
    "log.flush.scheduler.interval.ms": "Kafka's scheduler refuses 0 when the broker starts",
    "metadata.log.segment.ms": "Kafka refuses it when it opens the metadata log",
    "node.id": "Kafka's configuration names the voter 1",
    "sasl.enabled.mechanisms": "a name that is repeated has no effect",
    "sasl.oauthbearer.*": "Kafka looks at their values when the first client authenticates",
    "sasl.server.max.receive.size": "with 0 bytes nobody could authenticate",
    "socket.receive.buffer.bytes": "the system refuses it for a socket",
    "socket.send.buffer.bytes": "the system refuses it for a socket",
    "ssl.*": "Kafka looks at their values when it opens a listener with TLS",
}
"""Keys of which one takes what the other refuses, and why."""
DIFFERENT_WHILE_RUNNING = {
    "config.providers": "there are no configuration providers",
    "cordoned.log.dirs": "no directory is closed for new partitions",
    "group.share.assignment.interval.ms": _NO_UNREAD_LIMIT,
    "group.streams.assignment.interval.ms": _NO_UNREAD_LIMIT,
    "log.cleaner.io.buffer.load.factor": _LOAD_FACTOR,
    "log.cleaner.threads": "0: no log is rewritten",
    "log.flush.interval.ms": "Kafka takes a negative one, and then cannot use its topic defaults, nor start",
    "log.local.retention.ms": "without tiered storage it is compared with no other key",
    "log.remote.copy.lag.ms": "without tiered storage it is compared with no other key",
    "max.connections.per.ip.overrides": "names of hosts are resolved at the start",
    "metric.reporters": "there are no metrics reporters",
    "sasl.enabled.mechanisms": "it is read when its listener begins to listen",
    "sasl.jaas.config": "it is read when its listener begins to listen",
    "sasl.kerberos.*": "they are read when their listener begins to listen",
    "sasl.mechanism.inter.broker.protocol": "there is no other broker",
    "ssl.*": "as in Kafka they are changed for single listeners alone; Kafka takes what has no effect",
}
"""The same of changes while the broker runs."""


def taken_at_start(key: str, value: str) -> bool:
    """Whether the configuration with that value is valid."""
    try:
        bundle_config({key: value})
    except ConfigError:
        return False
    return True


def alter_errors(asker: Asker, brokers: tuple[str, ...], key: str, value: str) -> list[int]:
    """The errors of a change of a key of each broker that is only validated; the broker `` stands for all."""
    change = {"name": key, "config_operation": SET, "value": value}
    resources = [
        {"resource_type": BROKER_RESOURCE, "resource_name": broker, "configs": [change]} for broker in brokers
    ]
    request = message(
        apis.INCREMENTAL_ALTER_CONFIGS.request_class, {"resources": resources, "validate_only": True}
    )
    answers = asker.ask(apis.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    errors = {answer.resource_name: int(answer.error_code) for answer in answers}
    return [errors[broker] for broker in brokers]


def broker_id(asker: Asker) -> str:
    """The id of the one broker."""
    request = message(apis.METADATA.request_class, {"topics": []})
    return str(asker.ask(apis.METADATA, 9, request).brokers[0].node_id)


def unexplained(different: Iterable[tuple[str, ...]], reasons: dict[str, str]) -> list[tuple[str, ...]]:
    """The differences that no row is about, and the rows that are about none."""
    found = list(different)
    needless = [(key,) for key in reasons if not any(fnmatchcase(each[0], key) for each in found)]
    return [each for each in found if not any(fnmatchcase(each[0], key) for key in reasons)] + needless


@pytest.mark.long
def test_config_takes_the_values_of_broker_keys_that_kafka_starts_with() -> None:
    values = "".join(f"{name}\t{value}\n" for name, kind in TYPES.items() for value in ODD[kind])
    different: list[tuple[str, ...]] = []
    compared: set[str] = set()
    for line in run_inside_kafka("BrokerValues", [], values).split("\n")[:-1]:
        key, value, reason = line.split("\t")
        if BUNDLE.find(key, "broker") is None:
            continue
        compared.add(key)
        if taken_at_start(key, value) != (reason == "taken"):
            different.append((key, value, reason))
    assert len(compared) > 140
    assert not unexplained(different, DIFFERENT_AT_START)


@pytest.mark.long
def test_incremental_alter_configs_takes_the_values_of_broker_keys_that_kafka_takes(
    kafka: Asker, tidelog: Asker
) -> None:
    ids = broker_id(kafka), broker_id(tidelog)
    different: list[tuple[str, ...]] = []
    for key, entry in entries(kafka, BROKER_RESOURCE, ids[0]).items():
        values = ODD.get(entry["config_type"], ODD[STRING])
        for value in values[:A_SAMPLE] if entry["read_only"] else values:
            # One request for the broker and for all: each has its own answer.
            expected, found = (
                alter_errors(asker, (id_, ""), key, value)
                for asker, id_ in zip((kafka, tidelog), ids, strict=True)
            )
            different += [
                (key, of_kafka, value, f"{theirs}, here {ours}")
                for of_kafka, theirs, ours in zip((ids[0], ""), expected, found, strict=True)
                if theirs != ours
            ]
    assert not unexplained(different, DIFFERENT_WHILE_RUNNING)
