"""The keys of Kafka's consumers and producers: which are options of this format, and what becomes of others.

They are all keys of Apache Kafka 4.4 that are not internal. One that only tunes Java's clients is accepted
and has no effect. One that would change what is read or written, or who may see it, is refused. Source:
Kafka documentation, "Consumer Configs" and "Producer Configs".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.plugins.client.secret_references import PROVIDERS
from tidelog.plugins.client.security_keys import SECURITY_KEYS
from tidelog.plugins.spark_sink.option_values import (
    MOST_LONG,
    ClientKeys,
    Parser,
    boolean,
    number,
    one_of,
    some_text,
)

PREFIX: Final = "kafka."
CONNECTION_OPTIONS: Final = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.default.api.timeout.ms",
    "kafka.request.timeout.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.socket.connection.setup.timeout.ms",
    *(f"{PREFIX}{name}" for name in SECURITY_KEYS),
)
"""Options of reading and writing."""
CONSUMER_OPTIONS: Final = (
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
)
PRODUCER_OPTIONS: Final = (
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.gzip.level",
    "kafka.compression.lz4.level",
    "kafka.compression.type",
    "kafka.compression.zstd.level",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.max.block.ms",
    "kafka.max.request.size",
    "kafka.partitioner.ignore.keys",
    "kafka.retries",
    "kafka.transaction.timeout.ms",
)

_LONG: Final = number(0, MOST_LONG)
_INT: Final = number(0)
_POSITIVE: Final = number(1)
_BUFFER: Final = number(-1)

_OF_ALL_CLIENTS: Final[Mapping[str, Parser]] = {
    "bootstrap.resolve.timeout.ms": _LONG,
    "client.dns.lookup": one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "client.rack": str,
    "connections.max.idle.ms": number(-1, MOST_LONG),
    "enable.metrics.push": boolean,
    "metadata.cluster.check.enable": boolean,
    "metadata.max.age.ms": _LONG,
    "metadata.recovery.rebootstrap.trigger.ms": _LONG,
    "metadata.recovery.strategy": one_of("rebootstrap", "none"),
    "metric.reporters": str,
    "metrics.num.samples": _POSITIVE,
    "metrics.recording.level": one_of("info", "debug", "trace"),
    "metrics.sample.window.ms": _LONG,
    "receive.buffer.bytes": _BUFFER,
    "reconnect.backoff.max.ms": _LONG,
    "reconnect.backoff.ms": _LONG,
    "send.buffer.bytes": _BUFFER,
    "socket.connection.setup.timeout.max.ms": _LONG,
}
_OF_CONSUMERS: Final[Mapping[str, Parser]] = {
    "allow.auto.create.topics": boolean,
    "auto.commit.interval.ms": _INT,
    "check.crcs": boolean,
    "exclude.internal.topics": boolean,
    "group.instance.id": some_text,
    "group.protocol": one_of("classic", "consumer"),
    "group.remote.assignor": str,
    "heartbeat.interval.ms": _INT,
    "max.poll.interval.ms": _POSITIVE,
    "max.poll.records": _POSITIVE,
    "partition.assignment.strategy": str,
    "session.timeout.ms": _INT,
    "share.acknowledgement.mode": one_of("implicit", "explicit"),
    "share.acquire.mode": one_of("batch_optimized", "record_limit"),
}
_OF_PRODUCERS: Final[Mapping[str, Parser]] = {
    "buffer.memory": _LONG,
    "linger.ms": _LONG,
    "max.in.flight.requests.per.connection": _POSITIVE,
    "metadata.max.idle.ms": number(5000, MOST_LONG),
    "partitioner.adaptive.partitioning.enable": boolean,
    "partitioner.availability.timeout.ms": _LONG,
    "partitioner.rack.aware": boolean,
}
_NO_JAVA: Final = "no Java class can be called here, and without it other records would be {}"
_REFUSED_CONSUMER_KEYS: Final = {
    "auto.offset.reset": "set startingOffsets: the query itself stores how far it has read",
    "enable.auto.commit": "the query itself stores how far it has read",
    "interceptor.classes": _NO_JAVA.format("read"),
    "key.deserializer": "keys are binary; convert the column",
    "value.deserializer": "values are binary; convert the column",
}
_REFUSED_PRODUCER_KEYS: Final = {
    "interceptor.classes": _NO_JAVA.format("written"),
    "key.serializer": "keys are written as they are; convert the column",
    "partitioner.class": "no Java class can be called here: set the column partition",
    "transaction.two.phase.commit.enable": "each task of a query ends its own transaction",
    "transactional.id": "a streaming query has a transactional id for each of its tasks",
    "value.serializer": "values are written as they are; convert the column",
}
_SECURITY: Final = ("kafka.ssl.", "kafka.sasl.", "kafka.security.providers")
_NOT_HERE: Final = "this client has no part for it, and would connect in another way"


def _keys(own: Mapping[str, Parser], refused: Mapping[str, str], others: Iterable[str]) -> ClientKeys:
    """Return the keys of one of the clients.

    Those of the other one (`others`, with prefix) have no effect and any value: often one set of options is
    given to all queries of a program.
    """
    mine = {f"{PREFIX}{name}": parser for name, parser in {**_OF_ALL_CLIENTS, **own}.items()}
    reasons = {f"{PREFIX}{name}": reason for name, reason in refused.items()}
    foreign: dict[str, Parser] = {name: str for name in others if name not in reasons}
    return ClientKeys(
        {**foreign, **mine}, reasons, dict.fromkeys(_SECURITY, _NOT_HERE), f"{PREFIX}{PROVIDERS}."
    )


def _all_of(own: Mapping[str, Parser], refused: Mapping[str, str], options: Iterable[str]) -> list[str]:
    return [*options, *(f"{PREFIX}{name}" for name in (*own, *refused))]


CONSUMER_KEYS: Final = _keys(
    _OF_CONSUMERS, _REFUSED_CONSUMER_KEYS, _all_of(_OF_PRODUCERS, _REFUSED_PRODUCER_KEYS, PRODUCER_OPTIONS)
)
PRODUCER_KEYS: Final = _keys(
    _OF_PRODUCERS, _REFUSED_PRODUCER_KEYS, _all_of(_OF_CONSUMERS, _REFUSED_CONSUMER_KEYS, CONSUMER_OPTIONS)
)
