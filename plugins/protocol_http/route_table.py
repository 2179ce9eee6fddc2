"""All routes. Paths and bodies are those of version 2 of Kafka's REST proxies, where these have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.plugins.protocol_http import consumer_routes, groups, health, records, topics
from tidelog.plugins.protocol_http.consumer_routes import MAX_WAIT_MS
from tidelog.plugins.protocol_http.formats import EVENT_STREAM, KAFKA, OCTETS
from tidelog.plugins.protocol_http.messages import JSON
from tidelog.plugins.protocol_http.prometheus import PROMETHEUS_TEXT
from tidelog.plugins.protocol_http.records import RECORD_TYPES
from tidelog.plugins.protocol_http.routes import HttpRoute, KafkaOperation, Number, OneOf, Parameter, Waits

PRODUCE = KafkaOperation(0, "Produce")
FETCH = KafkaOperation(1, "Fetch")
LIST_OFFSETS = KafkaOperation(2, "ListOffsets")
METADATA = KafkaOperation(3, "Metadata")
OFFSET_COMMIT = KafkaOperation(8, "OffsetCommit")
OFFSET_FETCH = KafkaOperation(9, "OffsetFetch")
DESCRIBE_GROUPS = KafkaOperation(15, "DescribeGroups")
LIST_GROUPS = KafkaOperation(16, "ListGroups")
CREATE_TOPICS = KafkaOperation(19, "CreateTopics")
DELETE_TOPICS = KafkaOperation(20, "DeleteTopics")
DELETE_GROUPS = KafkaOperation(42, "DeleteGroups")
DESCRIBE_CLUSTER = KafkaOperation(60, "DescribeCluster")
GROUP_HEARTBEAT = KafkaOperation(68, "ConsumerGroupHeartbeat")

JSON_BODY = (JSON, KAFKA)
PRODUCED = (*RECORD_TYPES, OCTETS)
ISOLATION = OneOf(("read_uncommitted", "read_committed"))
MAX_BYTES = Number(1, 2**31 - 1)
MAX_RECORDS = Number(1, 100_000)
TIMEOUT = Number(0, MAX_WAIT_MS)
STARTS = OneOf(("earliest", "latest"), numbers=True)
_TOPIC, _PARTITION = "/topics/{topic}", "/topics/{topic}/partitions/{partition}"
_INSTANCE = "/consumers/{group}/instances/{instance}"
_READING: Final[Mapping[str, Parameter]] = {
    "timeout": TIMEOUT,
    "max_bytes": MAX_BYTES,
    "max_records": MAX_RECORDS,
    "isolation_level": ISOLATION,
}

ROUTES: Final[Sequence[HttpRoute]] = (
    HttpRoute("GET", "/health", health.health, "Whether the broker serves requests"),
    HttpRoute("GET", "/ready", health.ready, "Whether clients can be sent to the broker"),
    HttpRoute(
        "GET",
        "/metrics",
        health.metrics,
        "All meters, for Prometheus",
        DESCRIBE_CLUSTER,
        produces=(PROMETHEUS_TEXT,),
        waits=Waits.GIVEN_UP,
    ),
    HttpRoute("GET", "/openapi.json", health.openapi, "This description"),
    HttpRoute("GET", "/brokers", topics.list_brokers, "The ids of the brokers", METADATA),
    HttpRoute("GET", "/topics", topics.list_topics, "The names of all topics", METADATA),
    HttpRoute(
        "POST",
        "/topics",
        topics.create_topic,
        "Create a topic",
        CREATE_TOPICS,
        consumes=JSON_BODY,
        status=201,
    ),
    HttpRoute("GET", _TOPIC, topics.describe_topic, "A topic with its partitions", METADATA),
    HttpRoute("DELETE", _TOPIC, topics.delete_topic, "Delete a topic", DELETE_TOPICS, status=204),
    HttpRoute("POST", _TOPIC, records.produce, "Append records to a topic", PRODUCE, consumes=PRODUCED),
    HttpRoute("GET", f"{_TOPIC}/partitions", topics.list_partitions, "The partitions of a topic", METADATA),
    HttpRoute("GET", _PARTITION, topics.describe_partition, "A partition", METADATA),
    HttpRoute("POST", _PARTITION, records.produce, "Append to a partition", PRODUCE, consumes=PRODUCED),
    HttpRoute(
        "GET",
        f"{_PARTITION}/offsets",
        topics.offsets,
        "The first offset and the end of a partition, or the first record from a time on",
        LIST_OFFSETS,
        {"timestamp": Number()},
    ),
    HttpRoute(
        "GET",
        f"{_PARTITION}/records",
        records.fetch,
        "Records of a partition from an offset on",
        FETCH,
        {"offset": STARTS, **_READING},
        produces=(*RECORD_TYPES, OCTETS),
        waits=Waits.GIVEN_UP,
    ),
    HttpRoute(
        "GET",
        f"{_TOPIC}/follow",
        records.follow,
        "The records of a topic as they come: server-sent events, or a WebSocket",
        FETCH,
        {
            "from": STARTS,
            "partition": Number(0, 2**31 - 1),
            "format": OneOf(("json", "binary")),
            "isolation_level": ISOLATION,
            "max_bytes": MAX_BYTES,
        },
        produces=(EVENT_STREAM,),
        waits=Waits.GIVEN_UP,
    ),
    HttpRoute("GET", "/groups", groups.list_groups, "All groups", LIST_GROUPS),
    HttpRoute("GET", "/groups/{group}", groups.describe_group, "A group and its members", DESCRIBE_GROUPS),
    HttpRoute("DELETE", "/groups/{group}", groups.delete_group, "Delete a group", DELETE_GROUPS, status=204),
    HttpRoute(
        "GET", "/groups/{group}/offsets", groups.group_offsets, "What a group has committed", OFFSET_FETCH
    ),
    HttpRoute(
        "POST",
        "/groups/{group}/offsets",
        groups.commit_offsets,
        "Commit offsets of the next records to read, for a group without members",
        OFFSET_COMMIT,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "POST",
        "/consumers/{group}",
        consumer_routes.create,
        "Create a consumer instance",
        GROUP_HEARTBEAT,
        consumes=JSON_BODY,
    ),
    HttpRoute("DELETE", _INSTANCE, consumer_routes.delete, "Delete an instance", GROUP_HEARTBEAT, status=204),
    HttpRoute(
        "POST",
        f"{_INSTANCE}/subscription",
        consumer_routes.subscribe,
        "Subscribe to topics, or to a pattern",
        GROUP_HEARTBEAT,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "GET",
        f"{_INSTANCE}/subscription",
        consumer_routes.subscription,
        "The subscription of an instance",
        GROUP_HEARTBEAT,
    ),
    HttpRoute(
        "DELETE",
        f"{_INSTANCE}/subscription",
        consumer_routes.unsubscribe,
        "End the subscription of an instance",
        GROUP_HEARTBEAT,
        status=204,
    ),
    HttpRoute(
        "POST",
        f"{_INSTANCE}/assignments",
        consumer_routes.assign,
        "Assign partitions to an instance that is not subscribed",
        METADATA,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "GET",
        f"{_INSTANCE}/assignments",
        consumer_routes.assignments,
        "The partitions of an instance",
        METADATA,
    ),
    HttpRoute(
        "POST",
        f"{_INSTANCE}/positions",
        consumer_routes.seek,
        "Read on from these offsets",
        LIST_OFFSETS,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "POST",
        f"{_INSTANCE}/positions/beginning",
        consumer_routes.seek_to_beginning,
        "Read on from the first record",
        LIST_OFFSETS,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "POST",
        f"{_INSTANCE}/positions/end",
        consumer_routes.seek_to_end,
        "Read on from the end",
        LIST_OFFSETS,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "GET",
        f"{_INSTANCE}/records",
        consumer_routes.poll,
        "The next records of an instance",
        FETCH,
        _READING,
        produces=RECORD_TYPES,
        waits=Waits.GIVEN_UP,
    ),
    HttpRoute(
        "POST",
        f"{_INSTANCE}/offsets",
        consumer_routes.commit,
        "Commit offsets of the last records that were processed; without a body, of all that were returned",
        OFFSET_COMMIT,
        consumes=JSON_BODY,
        status=204,
    ),
    HttpRoute(
        "GET",
        f"{_INSTANCE}/offsets",
        consumer_routes.committed,
        "What the group has committed of the partitions of an instance",
        OFFSET_FETCH,
    ),
)
