"""Checks before this broker takes over a metadata log: this node is the only voter, every record is known."""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.ids import encode_uuid_bytes
from tidelog.plugins.metadata_kraft.image import METADATA_VERSION, RecordImage, TopicRecords
from tidelog.plugins.metadata_kraft.quorum_state import NO_NODE, QuorumState
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.records.settings import BROKER_RESOURCE
from tidelog.plugins.metadata_kraft.records.types import NEWEST_KNOWN, OLDEST_WRITABLE

_SET_BY_FORMAT = {("", "min.insync.replicas")}


def check_takeover(
    directory: Path, replay: MetadataReplay, quorum: QuorumState | None, node_id: int, directory_id: bytes
) -> None:
    """Check that this node is the log's only voter, and that this broker can continue it.

    Raises:
        ConfigError: it belongs to several nodes, to another one, or to a newer Kafka.
    """
    _check_voters(directory, replay, quorum, node_id, directory_id)
    _check_version(directory, replay.image.metadata_version or replay.bootstrap.metadata_version)
    for topic in replay.image.topics.values():
        _check_topic(directory, topic, node_id)


def _check_voters(
    directory: Path, replay: MetadataReplay, quorum: QuorumState | None, node_id: int, directory_id: bytes
) -> None:
    voters: tuple[int, ...] = ()
    if replay.kraft_version and replay.voters is not None:
        voters = tuple(voter.voter_id for voter in replay.voters.voters)
    elif quorum is not None:
        voters = quorum.voters or ()
        if not voters and quorum.leader_id != NO_NODE:
            voters = (quorum.leader_id,)
    if voters and voters != (node_id,):
        raise ConfigError(
            f"{directory} is the metadata log of the controllers {_listed(voters)}, but this broker's "
            f"node.id is {node_id}, and it can take over the directory of a single node only. Set node.id to "
            "it, or set log.dirs to another directory"
        )
    if not (replay.kraft_version and replay.voters is not None):
        return
    voter = replay.voters.voters[0]
    if voter.voter_directory_id != directory_id:
        raise ConfigError(
            f"{directory} says that node {node_id} votes with the directory "
            f"{encode_uuid_bytes(voter.voter_directory_id)}, but meta.properties calls this one "
            f"{encode_uuid_bytes(directory_id)}; restore meta.properties"
        )


def _check_version(directory: Path, level: int) -> None:
    if level and not OLDEST_WRITABLE <= level <= NEWEST_KNOWN:
        remedy = (
            "Raise it with Apache Kafka's kafka-features.sh first" if level < OLDEST_WRITABLE else
            "It was raised by a newer Apache Kafka; start that one"
        )  # fmt: skip
        raise ConfigError(
            f"{directory} has {METADATA_VERSION} {level}, this broker can carry on {OLDEST_WRITABLE} "
            f"(3.7-IV2) to {NEWEST_KNOWN} (4.4-IV2). {remedy}"
        )


def _check_topic(directory: Path, topic: TopicRecords, node_id: int) -> None:
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        raise ConfigError(
            f"{directory}: topic {topic.name} has the partitions {_listed(topic.partitions)}, which do not "
            "count from 0 without a gap; this broker cannot represent that"
        )
    for number, partition in topic.partitions.items():
        if partition.replicas != [node_id]:
            raise ConfigError(
                f"{directory}: partition {number} of topic {topic.name} has its replicas on the nodes "
                f"{_listed(partition.replicas)}, not on node {node_id} alone. Move it there with Apache "
                "Kafka's kafka-reassign-partitions.sh first"
            )


def foreign_settings(image: RecordImage, dynamic_keys: Container[str]) -> list[str]:
    """Return broker keys that the log sets beyond what a new log sets itself, and that do not count here.

    Those of `dynamic_keys`, which can be changed while the broker runs, do count.
    """
    return sorted(
        f"{name} (broker {resource or 'default'})"
        for (kind, resource), values in image.configs.items()
        for name in values
        if kind == BROKER_RESOURCE and (resource, name) not in _SET_BY_FORMAT and name not in dynamic_keys
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
