"""Configuration keys of requests, and Kafka's keys that tidelog does not read.

The latter have no meaning here or belong to a missing feature. Keys without meaning are accepted with a
warning: the broker does what Kafka would do without the key. Keys of a missing feature are refused, since a
user would rely on it; a value that asks for what this broker does anyway is accepted. Names may begin and end
with `*`. A key that a plugin declares is found before these tables: what a plugin of the default bundle
declares is here for brokers that block it.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.kernel.config import ConfigKey, Scope, UnsupportedKey, boolean, comma_list, integer
from tidelog.plugins.protocol_kafka.client_matching import client_matches

FETCH_MAX_BYTES = ConfigKey(
    name="fetch.max.bytes",
    type=integer(1024),
    default=57671680,
    documentation="The largest response to one Fetch request, in bytes, however much the client asks for. A "
    "first batch that is larger is returned whole all the same.",
)
AUTO_CREATE_TOPICS_ENABLE = ConfigKey(
    name="auto.create.topics.enable",
    type=boolean(),
    default=True,
    documentation="Whether a topic is created when a client asks for its metadata. The response says "
    "UNKNOWN_TOPIC_OR_PARTITION, and the client asks again.",
)
DEFAULT_REPLICATION_FACTOR = ConfigKey(
    name="default.replication.factor",
    type=integer(1, 1),
    default=1,
    documentation="The replication factor of a topic that is created without one. A single broker holds one "
    "replica.",
)
DELETE_TOPIC_ENABLE = ConfigKey(
    name="delete.topic.enable",
    type=boolean(),
    default=True,
    documentation="Whether clients may delete topics.",
)
SOCKET_REQUEST_MAX_BYTES = ConfigKey(
    name="socket.request.max.bytes",
    type=integer(1),
    default=104857600,
    documentation="The largest request that is accepted, in bytes; a connection that announces a larger one "
    "is closed.",
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = ConfigKey(
    name="max.request.partition.size.limit",
    type=integer(1),
    default=2000,
    documentation="The largest number of partitions in one response to DescribeTopicPartitions.",
)
MAX_INCREMENTAL_FETCH_SESSIONS = ConfigKey(
    name="max.incremental.fetch.session.cache.slots",
    type=integer(0),
    default=1000,
    documentation="The largest number of fetch sessions, in which a request names only the partitions that "
    "have changed for the client. All sessions together may have 250 partitions for each slot. A client "
    "without a place names all partitions in each request.",
)
TELEMETRY_MAX_BYTES = ConfigKey(
    name="telemetry.max.bytes",
    type=integer(1),
    default=1024 * 1024,
    documentation="The largest size of the metrics that a client pushes at once, in bytes, compressed and "
    "decompressed. They are for plugins that receive client metrics.",
)
CLIENT_METRICS_METRICS = ConfigKey(
    name="metrics",
    type=comma_list(),
    default=(),
    scope="client-metrics",
    documentation="Prefixes of the names of metrics that clients are to push; `*` for all.",
)
CLIENT_METRICS_INTERVAL_MS = ConfigKey(
    name="interval.ms",
    type=integer(100, 3_600_000),
    default=300_000,
    scope="client-metrics",
    documentation="The interval at which clients push metrics, in milliseconds.",
)
CLIENT_METRICS_MATCH = ConfigKey(
    name="match",
    type=client_matches(),
    default=(),
    scope="client-metrics",
    documentation="The clients that the subscription is for: regular expressions in RE2's syntax for "
    "`client_instance_id`, `client_id`, `client_software_name`, `client_software_version`, "
    "`client_source_address` and `client_source_port`. All clients, if it is empty.",
)

_NO_THREADS = "one event loop serves every connection, so there are no pools of threads"
_NO_QUORUM = "a single broker keeps its own metadata, without a quorum of controllers"
_NO_REPLICAS = "a single broker has no other replicas"
_NO_PURGATORY = "waiting requests are not kept in a purgatory"
_NO_ZOOKEEPER = "no plugin is installed that registers the broker in ZooKeeper"
_NO_BROKER_IDS = "each broker has the id that is configured"
_REMOVED = "Apache Kafka has removed it"

_WITHOUT_MEANING: dict[str, str] = {
    "num.replica.alter.log.dirs.threads": _NO_THREADS,
    "group.coordinator.threads": _NO_THREADS,
    "group.coordinator.background.threads": _NO_THREADS,
    "group.coordinator.append.linger.ms": "what a request changes is written immediately",
    "add.partitions.to.txn.*": "a single broker adds partitions to transactions without asking another one",
    "offsets.commit.timeout.ms": "a single broker has no replicas to wait for before it answers a commit",
    "num.recovery.threads.per.data.dir": "the storage itself decides how much it recovers in parallel",
    "log.retention.check.interval.ms": "no plugin is installed that deletes by age or size",
    "queued.max.requests": "the requests of a connection are served in order, without a queue",
    "process.roles": _NO_QUORUM,
    "controller.*": _NO_QUORUM,
    "early.start.listeners": _NO_QUORUM,
    "initial.broker.registration.timeout.ms": _NO_QUORUM,
    "broker.heartbeat.interval.ms": _NO_QUORUM,
    "broker.session.timeout.ms": _NO_QUORUM,
    "metadata.max.idle.interval.ms": _NO_QUORUM,
    "controlled.shutdown.*": "there is no other broker that could lead the partitions",
    "inter.broker.listener.name": "there is no other broker to connect to",
    "inter.broker.protocol.version": _REMOVED,
    "security.inter.broker.protocol": "there is no other broker to connect to",
    "sasl.mechanism.inter.broker.protocol": "there is no other broker to connect to",
    "request.timeout.ms": "this broker sends no requests",
    "socket.connection.setup.timeout.*": "this broker opens no connections",
    "replica.lag.time.max.ms": _NO_REPLICAS,
    "replica.socket.*": _NO_REPLICAS,
    "replica.fetch.*": _NO_REPLICAS,
    "replica.high.watermark.checkpoint.interval.ms": _NO_REPLICAS,
    "auto.leader.rebalance.enable": _NO_REPLICAS,
    "leader.imbalance.*": _NO_REPLICAS,
    "unclean.leader.election.interval.ms": _NO_REPLICAS,
    "offsets.topic.replication.factor": _NO_REPLICAS,
    "transaction.state.log.replication.factor": _NO_REPLICAS,
    "transaction.state.log.min.isr": _NO_REPLICAS,
    "share.coordinator.state.topic.replication.factor": _NO_REPLICAS,
    "share.coordinator.state.topic.min.isr": _NO_REPLICAS,
    "replication.quota.window.*": _NO_REPLICAS,
    "alter.log.dirs.replication.quota.window.*": "moves between directories are paced without samples",
    "*.purgatory.purge.interval.requests": _NO_PURGATORY,
    "zookeeper.connect": _NO_ZOOKEEPER,
    "zookeeper.connection.timeout.ms": _NO_ZOOKEEPER,
    "zookeeper.session.timeout.ms": _NO_ZOOKEEPER,
    "zookeeper.max.in.flight.requests": _NO_ZOOKEEPER,
    "broker.id.generation.enable": _NO_BROKER_IDS,
    "reserved.broker.max.id": _NO_BROKER_IDS,
    "control.plane.listener.name": _REMOVED,
    "offsets.commit.required.acks": _REMOVED,
    "group.coordinator.new.enable": _REMOVED,
    "password.encoder.*": _REMOVED,
    "log.message.format.version": "records are kept in message format v2",
    "log.message.downconversion.enable": "Apache Kafka accepts it but no longer reads it",
    "auto.include.jmx.reporter": "there is no JVM",
    "kafka.*": "it configures the Java classes of Apache Kafka",
    "ssl.provider": "there is no JVM",
    "ssl.keymanager.algorithm": "there is no JVM",
    "ssl.trustmanager.algorithm": "there is no JVM",
    "ssl.secure.random.implementation": "there is no JVM",
    "ssl.endpoint.identification.algorithm": "this broker connects to no other one",
    "unstable.*": "every served version is served to all clients",
}

_WITHOUT_MEANING_FOR_TOPICS: dict[str, str] = {
    "message.downconversion.enable": "Apache Kafka accepts it but no longer reads it",
    "message.format.version": "records are kept in message format v2",
}

_LIMITLESS = (str(2**63 - 1),)


class _Part(NamedTuple):
    """Feature of Kafka that is missing here, and the values that do not require it."""

    name: str
    neutral: tuple[str, ...] = ()


_WITHOUT_PART: dict[str, _Part] = {
    "ssl.*": _Part("TLS"),
    "sasl.*": _Part("SASL authentication"),
    "security.providers": _Part("TLS"),
    "principal.builder.class": _Part("authentication"),
    # By name and not as a pattern, which would hide misspelled ones where compaction is there.
    "log.cleaner.enable": _Part("compaction", ("false",)),
    "log.cleaner.threads": _Part("compaction", ("0",)),
    "log.cleaner.backoff.ms": _Part("compaction"),
    "log.cleaner.dedupe.buffer.size": _Part("compaction"),
    "log.cleaner.io.max.bytes.per.second": _Part("compaction"),
    "log.cleaner.io.buffer.size": _Part("compaction"),
    "log.cleaner.io.buffer.load.factor": _Part("compaction"),
    "log.cleaner.delete.retention.ms": _Part("compaction"),
    "log.cleaner.min.compaction.lag.ms": _Part("compaction"),
    "log.cleaner.max.compaction.lag.ms": _Part("compaction"),
    "log.cleaner.min.cleanable.ratio": _Part("compaction"),
    "log.flush.*": _Part("checkpoints of log directories"),
    "log.dir": _Part("storage in log directories"),
    "log.dirs": _Part("storage in log directories"),
    "log.segment.bytes": _Part("storage in log directories"),
    "log.roll.ms": _Part("storage in log directories"),
    "log.roll.hours": _Part("storage in log directories"),
    "log.roll.jitter.ms": _Part("storage in log directories"),
    "log.roll.jitter.hours": _Part("storage in log directories"),
    "log.index.size.max.bytes": _Part("storage in log directories"),
    "log.index.interval.bytes": _Part("storage in log directories"),
    "log.preallocate": _Part("storage in log directories"),
    "log.segment.delete.delay.ms": _Part("storage in log directories"),
    "cordoned.log.dirs": _Part("storage in log directories", ("",)),
    "log.dir.failure.timeout.ms": _Part("handling the failure of one of several log directories"),
    "metadata.*": _Part("a metadata log"),
    "internal.metadata.*": _Part("a metadata log"),
    "replica.selector.class": _Part("replication"),
    "replica.alter.log.dirs.io.max.bytes.per.second": _Part("moving partitions between directories"),
    "offsets.*": _Part("group coordination"),
    "offset.metadata.max.bytes": _Part("group coordination"),
    "group.share.*": _Part("share groups"),
    "group.streams.*": _Part("streams groups"),
    "group.*": _Part("group coordination"),
    "share.*": _Part("share groups"),
    "transaction.two.phase.commit.enable": _Part("a coordinator of transactions", ("false",)),
    "transaction.*": _Part("transactions"),
    "transactional.id.expiration.ms": _Part("transactions"),
    "remote.*": _Part("tiered storage", ("false",)),
    "log.remote.*": _Part("tiered storage"),
    "config.providers*": _Part("configuration providers", ("",)),
    "listener.name.*": _Part("this setting for one listener"),
    "metric.reporters": _Part("metrics reporters", ("",)),
    "metrics.*": _Part("metrics"),
    "telemetry.*": _Part("telemetry of the broker itself"),
}

_WITHOUT_PART_FOR_TOPICS: dict[str, _Part] = {
    "segment.bytes": _Part("storage in log directories"),
    "segment.ms": _Part("storage in log directories"),
    "segment.jitter.ms": _Part("storage in log directories"),
    "segment.index.bytes": _Part("storage in log directories"),
    "index.interval.bytes": _Part("storage in log directories"),
    "file.delete.delay.ms": _Part("storage in log directories"),
    "preallocate": _Part("storage in log directories"),
    "delete.retention.ms": _Part("compaction"),
    "min.compaction.lag.ms": _Part("compaction", ("0",)),
    "max.compaction.lag.ms": _Part("compaction", _LIMITLESS),
    "min.cleanable.dirty.ratio": _Part("compaction"),
    "remote.*": _Part("tiered storage"),
    "internal.segment.bytes": _Part("the settings of Apache Kafka's own tests"),
}

_WITHOUT_PART_FOR_GROUPS: dict[str, _Part] = {
    "consumer.*": _Part("group coordination"),
    "share.*": _Part("share groups"),
    "streams.*": _Part("streams groups"),
    "errors.deadletterqueue.*": _Part("dead-letter queues"),
}

_RENAMED: dict[str, str] = {
    "log.message.timestamp.difference.max.ms": "log.message.timestamp.before.max.ms and "
    "log.message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "message.timestamp.before.max.ms and "
    "message.timestamp.after.max.ms",
    "host.name": "listeners",
    "port": "listeners",
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "brokerid": "node.id",
    "log.file.size": "log.segment.bytes",
    "max.message.size": "message.max.bytes",
    "max.socket.request.bytes": "socket.request.max.bytes",
    "socket.send.buffer": "socket.send.buffer.bytes",
    "socket.receive.buffer": "socket.receive.buffer.bytes",
}

_SCOPES: tuple[Scope, ...] = ("broker", "topic")

UNSUPPORTED: tuple[UnsupportedKey, ...] = (
    *(UnsupportedKey(name, scope, renamed=today) for name, today in _RENAMED.items() for scope in _SCOPES),
    *(UnsupportedKey(name, "broker", meaningless=why) for name, why in _WITHOUT_MEANING.items()),
    *(UnsupportedKey(name, "topic", meaningless=why) for name, why in _WITHOUT_MEANING_FOR_TOPICS.items()),
    *(UnsupportedKey(name, "broker", "", *part) for name, part in _WITHOUT_PART.items()),
    *(UnsupportedKey(name, "topic", "", *part) for name, part in _WITHOUT_PART_FOR_TOPICS.items()),
    *(UnsupportedKey(name, "group", "", *part) for name, part in _WITHOUT_PART_FOR_GROUPS.items()),
)
"""All of the above, for the hook `tidelog_config_keys`."""
