"""Scenarios with Kafka's command line tools: a command line, and what it has to print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .reference import Place, Reference
from .scenarios import RECORDS, Scenario, empty_topic, filled, nothing

if TYPE_CHECKING:
    from .scenarios import Step

_TOOLS: Final = "org.apache.kafka.tools"
_CLASSES: Final = {
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
}
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def _tool(
    tool: str, name: str, arguments: str, printed: str, prepare: Step = nothing, check: Step = nothing
) -> Scenario:
    words = f"{_CLASSES[tool]} {arguments}"
    return Scenario(tool, name, "tool", prepare, check=check, argument=words, printed=printed)


def _of_topic(
    tool: str, name: str, arguments: str, printed: str, prepare: Step = nothing, check: Step = nothing
) -> Scenario:
    return _tool(tool, name, f"--bootstrap-server BROKER {arguments}", printed, prepare, check)


def _has(count: int) -> Step:
    """Return the check that the topic has so many records."""

    def check(reference: Reference, place: Place) -> None:
        found = len(reference.records(place.topic, count))
        assert found == count, f"{found} records, expected {count}"

    return check


def _group_named_as_topic(reference: Reference, place: Place) -> None:
    filled(committed=5)(reference, Place(place.topic, place.topic))


def _topics() -> list[Scenario]:
    tool = "kafka-topics"
    return [
        _of_topic(tool, "--create", "--create --topic TOPIC --partitions 3", "Created topic"),
        _of_topic(tool, "--list", "--list", r"^topic-\d+$", empty_topic()),
        _of_topic(tool, "--describe", "--describe --topic TOPIC", "PartitionCount: 3", empty_topic(3)),
        _of_topic(tool, "--alter", "--alter --topic TOPIC --partitions 4", "^$", empty_topic()),
        _of_topic(tool, "--delete", "--delete --topic TOPIC", "^$", empty_topic()),
    ]


def _configs() -> list[Scenario]:
    tool, altered = "kafka-configs", "Completed updating"
    key = "--alter --topic TOPIC --add-config retention.ms=5"
    default = "--alter --broker-defaults --add-config log.retention.ms=-1"
    quota = "--alter --entity-type users --entity-name TOPIC --add-config producer_byte_rate=1024"
    group = (
        "--alter --entity-type groups --entity-name TOPIC --add-config consumer.heartbeat.interval.ms=6000"
    )
    retained = empty_topic(retention_ms="5000")
    return [
        _of_topic(tool, "--alter a topic", key, altered, empty_topic()),
        _of_topic(tool, "--describe a topic", "--describe --topic TOPIC", "retention.ms=5000", retained),
        _of_topic(tool, "--alter brokers' defaults", default, altered),
        _of_topic(tool, "--describe a broker", "--describe --all --broker 1", "log.retention.ms=-1"),
        _of_topic(tool, "--alter a quota", quota, altered),
        _of_topic(tool, "--alter a group", group, altered),
    ]


def _cluster() -> list[Scenario]:
    elected = "--election-type preferred --topic TOPIC --partition 0"
    node = "--bootstrap-server BROKER describe"
    return [
        _tool(
            "kafka-cluster", "cluster-id", "cluster-id --bootstrap-server BROKER", r"Cluster ID: [\w-]{22}"
        ),
        _tool("kafka-cluster", "list-endpoints", "list-endpoints --bootstrap-server BROKER", "unfenced"),
        _tool("kafka-metadata-quorum", "describe --status", f"{node} --status", r"LeaderId: +1$"),
        _tool("kafka-metadata-quorum", "describe --replication", f"{node} --replication", "Leader"),
        _tool("kafka-features", "describe", node, "metadata.version.*FinalizedVersionLevel: 4.4"),
        _of_topic(
            "kafka-leader-election", "preferred", elected, "Valid replica already elected", empty_topic()
        ),
        _of_topic("kafka-log-dirs", "--describe", "--describe --topic-list TOPIC", '"size":', filled()),
        _of_topic("kafka-broker-api-versions", "all", "", r"Produce\(0\): \d"),
        _tool("kafka-transactions", "list", "--bootstrap-server BROKER list", "TransactionalId"),
        _of_topic("kafka-client-metrics", "--list", "--list", "^"),
    ]


def _offsets() -> list[Scenario]:
    tool = "kafka-get-offsets"
    found = r"topic-\d+:0:"
    return [
        _of_topic(tool, "latest", "--topic TOPIC", f"{found}10", filled()),
        _of_topic(tool, "earliest", "--topic TOPIC --time earliest", f"{found}0", filled()),
        _of_topic(tool, "max-timestamp", "--topic TOPIC --time max-timestamp", f"{found}9", filled()),
        _of_topic(tool, "by time", "--topic TOPIC --time 1700000004001", f"{found}5", filled()),
    ]


def _records() -> list[Scenario]:
    perf = "--topic TOPIC --num-records 1000 --record-size 100 --throughput -1 --producer-props"
    read = "--topic TOPIC --partition 0 --offset earliest --max-messages 10"
    timed = "--topic TOPIC --num-records 10 --timeout 20000"
    verified = "--topic TOPIC --max-messages 10"
    group = "--topic TOPIC --group-id TOPIC --max-messages 10 --reset-policy earliest"
    return [
        *(
            _tool(
                "kafka-producer-perf-test",
                codec,
                f"{perf} bootstrap.servers=BROKER compression.type={codec}",
                "1000 records sent",
                empty_topic(),
                _has(1000),
            )
            for codec in _CODECS
        ),
        _of_topic("kafka-consumer-perf-test", "10 records", timed, r", 10, ", filled()),
        _of_topic("kafka-verifiable-producer", "10 records", verified, "startup", empty_topic(), _has(10)),
        _of_topic("kafka-verifiable-consumer", "10 records", group, '"name":"records_consumed"', filled()),
        _of_topic(
            "kafka-console-producer", "3 lines", "--topic TOPIC | one two three", "", empty_topic(), _has(3)
        ),
        _of_topic("kafka-console-consumer", "10 records", read, f"^{RECORDS[9][2]}$", filled()),
        _tool(
            "kafka-e2e-latency",
            "10 records",
            "--bootstrap-server BROKER --topic TOPIC --num-records 10 --producer-acks 1 --record-size 100",
            "Avg latency",
            empty_topic(),
        ),
    ]


def _groups() -> list[Scenario]:
    tool, group = "kafka-consumer-groups", _group_named_as_topic
    reset = "--reset-offsets --to-earliest --topic TOPIC --execute --group TOPIC"
    row = r"^topic-\d+ +topic-\d+ +0 +5 +10 +5 "
    return [
        _of_topic(tool, "--list", "--list", r"^topic-\d+$", group),
        _of_topic(tool, "--describe", "--describe --group TOPIC", row, group),
        _of_topic(tool, "--describe --state", "--describe --state --group TOPIC", "Empty +0", group),
        _of_topic(tool, "--reset-offsets", reset, r"topic-\d+ +0 +0", group),
        _of_topic(tool, "--delete", "--delete --group TOPIC", "was successful", group),
        _of_topic("kafka-groups", "--list", "--list", r"^topic-\d+ +Classic", group),
    ]


SCENARIOS: Final = (*_topics(), *_configs(), *_offsets(), *_records(), *_groups(), *_cluster())
