"""Requests, good and bad ones, whose answers are compared with those of Apache Kafka field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.describe_cluster import DescribeClusterRequest
from tidelog.plugins.protocol_kafka.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.plugins.protocol_kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.plugins.schema import ZERO_UUID

from .requests import Sent, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .raw_client import RawClient

OF_THE_MOMENT = {"host", "port", "cluster_id", "topic_id", "finalized_features_epoch", "replica_directory_id"}
"""Fields that no two brokers have in common; they are both there or both empty."""
OFFSETS_AND_TIMES = {
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
}

NO_CONTROLLER_LISTENER = "no process listens for controllers"
NO_LOGGERS = "there are no loggers to describe or to change"
NO_WORDS_FOR_SUCCESS = "Kafka calls a success an error whose message is NONE"
OF_THE_START = "the quorum of this Kafka is configured, and that of tidelog is in its log"


@attrs.frozen
class Equal:
    """A request, and the fields of the answer in which tidelog differs from Kafka, each with the reason."""

    name: str
    sends: Callable[[RawClient], Sent]
    differs: Mapping[str, str] = attrs.field(factory=dict[str, str])


def comparable(value: Any, left_out: Mapping[str, str]) -> Any:
    """Return an answer as nested dictionaries and lists, without the fields that differ."""
    if isinstance(value, list):
        return [comparable(each, left_out) for each in value]
    if not attrs.has(type(value)):
        return value
    return {
        field.name: _field(field.name, getattr(value, field.name), left_out)
        for field in attrs.fields(type(value))
        if field.name not in left_out
    }


def _field(name: str, value: Any, left_out: Mapping[str, str]) -> Any:
    if name in OF_THE_MOMENT:
        return value not in (ZERO_UUID, "", None, -1)
    if name in OFFSETS_AND_TIMES:
        return value > 0
    if name == "error_message":
        return bool(value)
    return comparable(value, left_out)


def _cluster(version: int, **fields: Any) -> Callable[[RawClient], Sent]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=version > 0, **fields)
    return lambda _: ask(apis.DESCRIBE_CLUSTER, version, request)


def _topics(*names: str | None, limit: int = 2000, cursor: tuple[str | None, int] | None = None) -> Any:
    def build(client: RawClient) -> Sent:
        asked = [DescribeTopicPartitionsTopic(name=name or client.topic) for name in names]
        first = (
            None
            if cursor is None
            else Cursor(topic_name=cursor[0] or client.topic, partition_index=cursor[1])
        )
        request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit, cursor=first)
        return ask(apis.DESCRIBE_TOPIC_PARTITIONS, 0, request)

    return build


def _elects(version: int, *asked: tuple[str | None, list[int]], kind: int = 0) -> Callable[[RawClient], Sent]:
    def build(client: RawClient) -> Sent:
        topics = [
            ElectLeadersTopicPartitions(topic=name or client.topic, partitions=parts) for name, parts in asked
        ]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=10_000)
        return ask(apis.ELECT_LEADERS, version, request)

    return build


def _lists(version: int, *types: int) -> Callable[[RawClient], Sent]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    return lambda _: ask(apis.LIST_CONFIG_RESOURCES, version, request)


def _quorum(version: int, *asked: tuple[str, int]) -> Callable[[RawClient], Sent]:
    topics = [
        DescribedTopic(topic_name=name, partitions=[DescribedPartition(partition_index=index)])
        for name, index in asked
    ]
    return lambda _: ask(apis.DESCRIBE_QUORUM, version, DescribeQuorumRequest(topics=topics))


def _updates(version: int, *asked: tuple[str, int, int]) -> Callable[[RawClient], Sent]:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=kind == DOWNGRADE)
        if version == 0
        else FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in asked
    ]
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates, validate_only=version > 0)
    return lambda _: ask(apis.UPDATE_FEATURES, version, request)


LOG = ("__cluster_metadata", 0)
UPGRADE, DOWNGRADE, UNSAFE = 1, 2, 3
NAMED = {"results": NO_WORDS_FOR_SUCCESS}

CLUSTER = (
    *(Equal(f"the cluster in version {version}", _cluster(version)) for version in (0, 1, 2)),
    Equal("fenced brokers", _cluster(2, include_fenced_brokers=True)),
    *(Equal(f"endpoints of type {kind}", _cluster(1, endpoint_type=kind)) for kind in (0, 2, 3)),
)

TOPICS = (
    Equal("a topic", _topics(None)),
    Equal("a topic twice and one that is not there", _topics(None, "nowhere", None)),
    Equal("one partition", _topics(None, limit=1)),
    Equal("no partition", _topics(None, limit=0)),
    Equal("the second partition", _topics(None, limit=1, cursor=(None, 1))),
    Equal("a partition behind the last one", _topics(None, cursor=(None, 2))),
    Equal("a topic behind the page", _topics(None, "zebra", limit=2)),
    Equal("a topic that is not there, from its middle on", _topics("nowhere", cursor=("nowhere", 3))),
    Equal("a cursor to another topic", _topics(None, cursor=("zebra", 0))),
    Equal("a cursor to a negative partition", _topics(None, cursor=(None, -1))),
)

ELECTIONS = (
    *(Equal(f"an election in version {version}", _elects(version, (None, [0, 1]))) for version in (0, 1, 2)),
    Equal("an unclean election", _elects(2, (None, [0]), kind=1)),
    Equal("an election of an unknown type", _elects(2, (None, [0]), kind=2)),
    Equal("an election of nothing", _elects(2)),
    Equal("an election of no partition", _elects(2, (None, []))),
    Equal("an election of what is not there", _elects(2, (None, [7, -1]), ("nowhere", [0]), ("a/b", [0]))),
    Equal("an election twice", _elects(2, (None, [0, 0]), (None, [0]))),
)

RESOURCES = (
    Equal("client metrics in version 0", _lists(0)),
    Equal("brokers", _lists(1, 4)),
    Equal("brokers twice", _lists(1, 4, 4)),
    Equal("loggers", _lists(1, 8), {"config_resources": NO_LOGGERS}),
    Equal("client metrics and groups", _lists(1, 16, 32)),
    *(Equal(f"resources of type {kind}", _lists(1, 4, kind)) for kind in (0, 99, -1)),
)

QUORUM = (
    *(Equal(f"the metadata log in version {version}", _quorum(version, LOG)) for version in (0, 1)),
    Equal(
        "the metadata log in version 2",
        _quorum(2, LOG),
        {"listeners": NO_CONTROLLER_LISTENER, "replica_directory_id": OF_THE_START},
    ),
    Equal("a log that is not there", _quorum(2, ("orders", 0))),
    Equal("a partition of the metadata log that is not there", _quorum(1, ("__cluster_metadata", 1))),
    Equal("the metadata log and another one", _quorum(2, LOG, ("orders", 0))),
    Equal("no log", _quorum(2)),
)

FEATURES = (
    Equal("a level in version 0", _updates(0, ("group.version", 1, UPGRADE)), NAMED),
    Equal("a level in version 1", _updates(1, ("group.version", 1, UPGRADE)), NAMED),
    Equal("no level", _updates(2)),
    *(
        Equal(f"{name} {level} of type {kind}", _updates(2, (name, level, kind)))
        for name, level, kind in (
            ("group.version", 0, DOWNGRADE),
            ("group.version", 0, UNSAFE),
            ("group.version", 0, UPGRADE),
            ("group.version", 0, 0),
            ("group.version", 0, 4),
            ("group.version", 1, DOWNGRADE),
            ("group.version", 2, UPGRADE),
            ("group.version", -1, UNSAFE),
            ("transaction.version", 1, DOWNGRADE),
            ("eligible.leader.replicas.version", 0, DOWNGRADE),
            ("metadata.version", 33, UPGRADE),
            ("metadata.version", 33, DOWNGRADE),
            ("metadata.version", 32, DOWNGRADE),
            ("metadata.version", 30, DOWNGRADE),
            ("metadata.version", 29, DOWNGRADE),
            ("metadata.version", 29, UNSAFE),
            ("metadata.version", 25, UPGRADE),
            ("metadata.version", 34, UPGRADE),
            ("metadata.version", 0, UNSAFE),
            ("kraft.version", 2, UPGRADE),
            ("share.version", 1, DOWNGRADE),
            ("share.version", 1, UPGRADE),
            ("share.version", 3, UPGRADE),
            ("streams.version", 2, UPGRADE),
            ("nowhere", 1, UPGRADE),
        )
    ),
    Equal(
        "a bad level behind a good one",
        _updates(1, ("transaction.version", 0, DOWNGRADE), ("group.version", 7, UPGRADE)),
    ),
    Equal("an unknown level with a downgrade in version 0", _updates(0, ("group.version", 9, DOWNGRADE))),
)

EQUALS = (*CLUSTER, *TOPICS, *ELECTIONS, *RESOURCES, *QUORUM, *FEATURES)
