"""Apache Kafka's own tools for clusters, run in one process, and the admin client of confluent-kafka."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.deadlines import DEADLINE_S

from .java_programs import run_inside_kafka

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .brokers import Broker

TOOLS = "org.apache.kafka.tools"
QUORUM, FEATURES = f"{TOOLS}.MetadataQuorumCommand", f"{TOOLS}.FeatureCommand"
ELECTION, CLUSTER, TOPICS = f"{TOOLS}.LeaderElectionCommand", f"{TOOLS}.ClusterTool", f"{TOOLS}.TopicCommand"
TOPIC = "flights"

RUNS: dict[str, Sequence[str]] = {
    "create": (TOPICS, "--create", "--topic", TOPIC, "--partitions", "3"),
    "describe": (TOPICS, "--describe", "--topic", TOPIC),
    "cluster id": (CLUSTER, "cluster-id"),
    "endpoints": (CLUSTER, "list-endpoints"),
    "fenced endpoints": (CLUSTER, "list-endpoints", "--include-fenced-brokers"),
    "quorum": (QUORUM, "describe", "--status"),
    "replicas": (QUORUM, "describe", "--replication"),
    "features": (FEATURES, "describe"),
    "downgrade": (FEATURES, "downgrade", "--feature", "group.version=0"),
    "features after the downgrade": (FEATURES, "describe"),
    "upgrade": (FEATURES, "upgrade", "--feature", "group.version=1"),
    "unknown level": (FEATURES, "upgrade", "--feature", "group.version=9"),
    "lossy downgrade": (FEATURES, "downgrade", "--metadata", "3.9"),
    "election": (ELECTION, "--election-type", "preferred", "--topic", TOPIC, "--partition", "1"),
    "election of all": (ELECTION, "--election-type", "unclean", "--all-topic-partitions"),
}
ADDRESS_LAST = {TOPICS, CLUSTER}
"""Tools that take the broker's address among their arguments; the others take it before a subcommand."""


@pytest.fixture(scope="module")
def told(broker: Broker) -> dict[str, str]:
    """What each run of a tool printed."""
    lines = [
        "\t".join((tool, *rest, "--bootstrap-server", broker.bootstrap))
        if tool in ADDRESS_LAST
        else "\t".join((tool, "--bootstrap-server", broker.bootstrap, *rest))
        for tool, *rest in RUNS.values()
    ]
    printed = run_inside_kafka("Tools", [], "\n".join(lines) + "\n")
    parts = re.split(r"^== \d+\n", printed, flags=re.MULTILINE)[1:]
    return dict(zip(RUNS, parts, strict=True))


def test_cluster_tool_prints_the_id_and_this_broker(broker: Broker, told: Mapping[str, str]) -> None:
    assert re.search(r"^Cluster ID: [\w-]{22}$", told["cluster id"], re.MULTILINE)
    host, _, port = broker.bootstrap.rpartition(":")
    for run in ("endpoints", "fenced endpoints"):
        heads, row = (line.split() for line in told[run].strip().splitlines())
        described = dict(zip(heads, row, strict=True))
        assert (described["ID"], described["HOST"], described["PORT"]) == ("1", host, port)
        assert (described["STATE"], described["ENDPOINT_TYPE"]) == ("unfenced", "broker")


def test_topic_command_describes_eligible_leader_replicas(told: Mapping[str, str]) -> None:
    rows = [line for line in told["describe"].splitlines() if "Partition:" in line]
    assert len(rows) == 3
    assert all("\tElr: \tLastKnownElr:" in row for row in rows)


def test_metadata_quorum_command_describes_one_voter(told: Mapping[str, str]) -> None:
    status = dict(re.findall(r"^(\w+): +(.*)$", told["quorum"], re.MULTILINE))
    assert (status["LeaderId"], status["MaxFollowerLag"], status["CurrentObservers"]) == ("1", "0", "[]")
    assert status["CurrentVoters"].startswith('[{"id": 1, ')
    heads, row = (line.split("\t") for line in told["replicas"].strip().splitlines())
    replica = {head.strip(): value.strip() for head, value in zip(heads, row, strict=False)}
    assert (replica["NodeId"], replica["Lag"], replica["Status"]) == ("1", "0", "Leader")
    assert int(replica["LogEndOffset"]) == int(status["HighWatermark"]) > 0


def test_feature_command_describes_and_changes_levels(told: Mapping[str, str]) -> None:
    before, lowered = (_levels(told[run]) for run in ("features", "features after the downgrade"))
    assert before["metadata.version"] == "4.4-IV2"
    assert before["transaction.version"] == "2"
    assert (before["group.version"], lowered["group.version"]) == ("1", "0")
    assert "group.version was downgraded to 0." in told["downgrade"]
    assert "group.version was upgraded to 1." in told["upgrade"]
    assert "Could not upgrade group.version to 9." in told["unknown level"]
    assert "Could not downgrade metadata.version to 21." in told["lossy downgrade"]


def _levels(printed: str) -> dict[str, str]:
    return dict(re.findall(r"^Feature: (\S+) .*FinalizedVersionLevel: (\S+)", printed, re.MULTILINE))


def test_leader_election_command_finds_leaders_elected(told: Mapping[str, str]) -> None:
    assert "Valid replica already elected for partitions flights-1" in told["election"]
    assert "== failed" not in told["election of all"]


def test_elect_leaders_of_confluent_kafka(broker: Broker, told: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 9)]
    results = admin.elect_leaders(ElectionType.PREFERRED, asked).result(DEADLINE_S)
    codes = {partition.partition: error and error.code() for partition, error in results.items()}
    assert codes == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        9: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
