"""What each API is asked in the comparison of authorizers, and which permissions that needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.seams.requests import AclOperation as Op
from tidelog.kernel.seams.requests import ResourceType
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages import api as a
from tidelog.plugins.protocol_kafka.messages.api import Api

Values = dict[str, Any]
Need = tuple[ResourceType, Op, str]

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TXN = ResourceType.TRANSACTIONAL_ID
A, B, MISSING = "acl-topic-a", "acl-topic-b", "acl-topic-missing"
G, H, T = "acl-group-g", "acl-group-h", "acl-transaction"
CONSUMERS = "acl-consumers"
KAFKA_CLUSTER = "kafka-cluster"
CREATED: Sequence[str] = (A, B)
UNKNOWN_ID = bytes(range(16))


@attrs.frozen
class AccessCase:
    """A request, and what it needs; `values` gets the ids of topics by name, and the number of the request.

    `versions` are the first and the last that are asked. `creates`: names of topics that are created before
    it, with `{}` for its number. `hides`: fields whose values are each broker's own.
    """

    api: Api
    values: Callable[[dict[str, bytes], int], Values]
    needs: Sequence[Need] = ()
    versions: tuple[int, int] | None = None
    creates: Sequence[str] = ()
    hides: Sequence[str] = ()

    @property
    def asked_versions(self) -> Sequence[int]:
        """The versions that are asked."""
        span = self.api.versions
        first, last = self.versions or (span.high, span.high)
        return sorted({first, last})


def _topic(operation: Op, name: str = A) -> Need:
    return TOPIC, operation, name


def _cluster(operation: Op) -> Need:
    return CLUSTER, operation, KAFKA_CLUSTER


def fixed(**values: Any) -> Callable[[dict[str, bytes], int], Values]:
    """The same values for each request."""
    return lambda ids, number: values


def _records(**header: Any) -> bytes:
    return bytes(make_batch([b"x"], timestamps=wall_clock_ms(), **header))


def produced(*names: str, **others: Any) -> Callable[[dict[str, bytes], int], Values]:
    """Produce a record to each topic."""

    def values(ids: dict[str, bytes], number: int) -> Values:
        return {
            "acks": 1,
            "timeout_ms": 10_000,
            "topic_data": [
                {"name": name, "partition_data": [{"index": 0, "records": _records()}]} for name in names
            ],
            **others,
        }

    return values


def _produced_by_id(ids: dict[str, bytes], number: int) -> Values:
    return {
        "acks": 1,
        "timeout_ms": 10_000,
        "topic_data": [
            {"topic_id": topic_id, "partition_data": [{"index": 0, "records": _records()}]}
            for topic_id in (ids[A], ids[B], UNKNOWN_ID)
        ],
    }


def _in_transaction(transactional_id: str | None) -> Callable[[dict[str, bytes], int], Values]:
    batch = _records(producer_id=9999, producer_epoch=0, base_sequence=0, transactional=True)
    partitions = [{"index": 0, "records": batch}]
    return fixed(
        acks=1,
        timeout_ms=10_000,
        transactional_id=transactional_id,
        topic_data=[{"name": MISSING, "partition_data": partitions}],
    )


def _fetched(key: str, names: Sequence[str], **others: Any) -> Callable[[dict[str, bytes], int], Values]:
    def values(ids: dict[str, bytes], number: int) -> Values:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 0}
        named = [name if key == "topic" else ids.get(name, UNKNOWN_ID) for name in names]
        topics = [{key: name, "partitions": [partition]} for name in named]
        return {"topics": topics, "session_epoch": -1, "max_wait_ms": 0, "min_bytes": 0, **others}

    return values


def _partitions(key: str, *names: str, **partition: Any) -> list[Values]:
    return [{key: name, "partitions": [partition]} for name in names]


def _by_ids(ids: dict[str, bytes], **partition: Any) -> list[Values]:
    return [{"topic_id": ids[name], "partitions": [partition]} for name in (A, B)]


def _config(resource_type: int, name: str) -> Values:
    return {"resource_type": resource_type, "resource_name": name}


OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
MEMBER = {"group_id": G, "generation_id": 1, "member_id": "m"}
RESOURCES = [
    _config(2, A),
    _config(2, B),
    _config(2, MISSING),
    _config(4, "1"),
    _config(16, "m"),
    _config(32, G),
]
RESOURCE_NEEDS = (TOPIC, A), (GROUP, G), (CLUSTER, KAFKA_CLUSTER)


def _on_resources(operation: Op) -> Sequence[Need]:
    return [(kind, operation, name) for kind, name in RESOURCE_NEEDS]


CASES: Sequence[AccessCase] = (
    AccessCase(
        a.PRODUCE,
        produced(A, B, MISSING),
        [_topic(Op.WRITE)],
        (3, 12),
        hides=("log_append_time_ms", "base_offset"),
    ),
    AccessCase(a.PRODUCE, _produced_by_id, [_topic(Op.WRITE)], hides=("topic_id", "base_offset")),
    AccessCase(a.PRODUCE, _in_transaction(T), [(TXN, Op.WRITE, T), _topic(Op.WRITE, MISSING)], (12, 12)),
    AccessCase(a.PRODUCE, _in_transaction(None), [_topic(Op.WRITE, MISSING)], (12, 12)),
    AccessCase(
        a.FETCH,
        _fetched("topic", [A, B, MISSING], max_bytes=0),
        [_topic(Op.READ)],
        (4, 12),
        hides=("high_watermark", "last_stable_offset", "records"),
    ),
    AccessCase(
        a.FETCH,
        _fetched("topic_id", [A, B, MISSING], max_bytes=0),
        [_topic(Op.READ)],
        hides=("topic_id", "high_watermark", "last_stable_offset", "records"),
    ),
    AccessCase(
        a.LIST_OFFSETS,
        fixed(replica_id=-1, topics=_partitions("name", A, B, MISSING, timestamp=-2)),
        [_topic(Op.DESCRIBE)],
        (1, 11),
    ),
    AccessCase(
        a.METADATA,
        fixed(topics=[{"name": name} for name in (A, B)], include_topic_authorized_operations=True),
        [_topic(Op.DESCRIBE), _topic(Op.READ), _topic(Op.ALTER_CONFIGS)],
        (8, 13),
    ),
    AccessCase(
        a.METADATA,
        fixed(topics=[{"name": name} for name in (A, MISSING)], allow_auto_topic_creation=False),
        [_topic(Op.DESCRIBE), _topic(Op.DESCRIBE, MISSING)],
        (4, 13),
    ),
    AccessCase(
        a.METADATA,
        fixed(topics=[], include_cluster_authorized_operations=True),
        [_cluster(Op.DESCRIBE), _cluster(Op.CREATE), _cluster(Op.ALTER_CONFIGS)],
        (8, 10),
    ),
    AccessCase(
        a.METADATA,
        lambda ids, number: {"topics": [{"topic_id": each} for each in (ids[A], ids[B], UNKNOWN_ID)]},
        [_topic(Op.DESCRIBE)],
    ),
    AccessCase(a.METADATA, fixed(topics=None), [_topic(Op.WRITE)], (1, 13)),
    AccessCase(
        a.METADATA,
        lambda ids, number: {"topics": [{"name": f"acl-auto-{number}"}], "allow_auto_topic_creation": True},
        [_topic(Op.DESCRIBE, "*"), _cluster(Op.CREATE)],
    ),
    AccessCase(
        a.OFFSET_COMMIT,
        fixed(group_id=G, topics=_partitions("name", A, B, MISSING, **OFFSET)),
        [(GROUP, Op.READ, G), _topic(Op.READ)],
        (2, 9),
    ),
    AccessCase(
        a.OFFSET_COMMIT,
        lambda ids, number: {"group_id": G, "topics": _by_ids(ids, **OFFSET)},
        [(GROUP, Op.READ, G), _topic(Op.READ)],
        hides=("topic_id",),
    ),
    AccessCase(
        a.OFFSET_FETCH,
        fixed(group_id=G, topics=[{"name": name, "partition_indexes": [0]} for name in (A, B)]),
        [(GROUP, Op.DESCRIBE, G), _topic(Op.DESCRIBE)],
        (1, 7),
    ),
    AccessCase(
        a.OFFSET_FETCH, fixed(group_id=G, topics=None), [(GROUP, Op.READ, G), _topic(Op.READ)], (2, 7)
    ),
    AccessCase(
        a.OFFSET_FETCH,
        fixed(
            groups=[
                {"group_id": G, "topics": [{"name": name, "partition_indexes": [0]} for name in (A, B)]},
                {"group_id": H, "topics": None},
            ]
        ),
        [(GROUP, Op.DESCRIBE, G), _topic(Op.DESCRIBE), (GROUP, Op.DESCRIBE, H)],
        (8, 9),
    ),
    AccessCase(a.FIND_COORDINATOR, fixed(key=G), [(GROUP, Op.DESCRIBE, G)], (0, 3)),
    AccessCase(
        a.FIND_COORDINATOR, fixed(key_type=1, coordinator_keys=[T, "other"]), [(TXN, Op.DESCRIBE, T)], (4, 6)
    ),
    AccessCase(
        a.JOIN_GROUP,
        fixed(group_id=G, session_timeout_ms=1, protocol_type="consumer", protocols=[]),
        [(GROUP, Op.READ, G)],
        (2, 9),
    ),
    AccessCase(a.HEARTBEAT, fixed(**MEMBER), [(GROUP, Op.READ, G)], (0, 4)),
    AccessCase(a.LEAVE_GROUP, fixed(group_id=G, member_id="m"), [(GROUP, Op.READ, G)], (0, 2)),
    AccessCase(a.LEAVE_GROUP, fixed(group_id=G, members=[{"member_id": "m"}]), [(GROUP, Op.READ, G)], (3, 5)),
    AccessCase(a.SYNC_GROUP, fixed(**MEMBER), [(GROUP, Op.READ, G)], (0, 5)),
    AccessCase(
        a.SYNC_GROUP,
        fixed(**MEMBER, protocol_type="consumer", protocol_name="range"),
        [(GROUP, Op.READ, G)],
    ),
    AccessCase(
        a.DESCRIBE_GROUPS,
        fixed(groups=[G, H], include_authorized_operations=True),
        [(GROUP, Op.DESCRIBE, G), (GROUP, Op.DELETE, G), (GROUP, Op.ALTER_CONFIGS, G)],
        (3, 6),
    ),
    AccessCase(a.LIST_GROUPS, fixed(), [(GROUP, Op.DESCRIBE, G), _cluster(Op.DESCRIBE)], (0, 5)),
    AccessCase(
        a.CREATE_TOPICS,
        lambda ids, number: {
            "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": 1}
                for name in ("acl-new", "acl-twice", "acl-twice", A)
            ],
            "timeout_ms": 10_000,
            "validate_only": True,
        },
        [_topic(Op.CREATE, "acl-new"), _topic(Op.DESCRIBE_CONFIGS, "acl-new"), _cluster(Op.CREATE)],
        (2, 7),
        hides=("configs", "topic_id"),
    ),
    AccessCase(
        a.DELETE_TOPICS,
        lambda ids, number: {"topic_names": [f"acl-gone-{number}", MISSING, "acl-no"], "timeout_ms": 10_000},
        [_topic(Op.DELETE, "acl-gone-{}"), _topic(Op.DESCRIBE, MISSING), _cluster(Op.DELETE)],
        (1, 5),
        creates=("acl-gone-{}",),
    ),
    AccessCase(
        a.DELETE_TOPICS,
        lambda ids, number: {
            "topics": [
                {"name": None, "topic_id": ids[f"acl-gone-{number}"]},
                {"name": None, "topic_id": UNKNOWN_ID},
                {"name": B},
            ],
            "timeout_ms": 10_000,
        },
        [_topic(Op.DESCRIBE, "acl-gone-{}"), _topic(Op.DELETE, "acl-gone-{}")],
        creates=("acl-gone-{}",),
        hides=("topic_id",),
    ),
    AccessCase(
        a.DELETE_RECORDS,
        fixed(topics=_partitions("name", A, B, MISSING, offset=0), timeout_ms=10_000),
        [_topic(Op.DELETE)],
        (0, 2),
    ),
    AccessCase(
        a.INIT_PRODUCER_ID,
        fixed(transactional_id=None, transaction_timeout_ms=10_000),
        [_topic(Op.WRITE), _cluster(Op.IDEMPOTENT_WRITE)],
        (0, 5),
        hides=("producer_id", "producer_epoch"),
    ),
    AccessCase(
        a.INIT_PRODUCER_ID,
        fixed(transactional_id=T, transaction_timeout_ms=-1),
        [(TXN, Op.WRITE, T)],
        (0, 5),
    ),
    AccessCase(
        a.OFFSET_FOR_LEADER_EPOCH,
        fixed(replica_id=-1, topics=_partitions("topic", A, B, MISSING, leader_epoch=0)),
        [_topic(Op.DESCRIBE), _cluster(Op.CLUSTER_ACTION)],
        (2, 4),
        hides=("end_offset",),
    ),
    AccessCase(
        a.ADD_PARTITIONS_TO_TXN,
        fixed(
            v3_and_below_transactional_id=T,
            v3_and_below_producer_id=77,
            v3_and_below_topics=[{"name": name, "partitions": [0, 9]} for name in (A, B, MISSING)],
        ),
        [(TXN, Op.WRITE, T), _topic(Op.WRITE)],
        (0, 3),
    ),
    AccessCase(
        a.ADD_PARTITIONS_TO_TXN,
        fixed(
            transactions=[
                {
                    "transactional_id": T,
                    "producer_id": 77,
                    "verify_only": True,
                    "topics": [{"name": A, "partitions": [0]}],
                }
            ]
        ),
        [_cluster(Op.CLUSTER_ACTION), (TXN, Op.WRITE, T)],
        (4, 5),
    ),
    AccessCase(
        a.ADD_OFFSETS_TO_TXN,
        fixed(transactional_id=T, producer_id=77, group_id=G),
        [(TXN, Op.WRITE, T), (GROUP, Op.READ, G)],
        (0, 4),
    ),
    AccessCase(a.END_TXN, fixed(transactional_id=T, producer_id=77), [(TXN, Op.WRITE, T)], (0, 5)),
    AccessCase(
        a.WRITE_TXN_MARKERS, fixed(markers=[]), [_cluster(Op.ALTER), _cluster(Op.CLUSTER_ACTION)], (1, 2)
    ),
    AccessCase(
        a.TXN_OFFSET_COMMIT,
        fixed(
            transactional_id=T,
            group_id=G,
            producer_id=77,
            topics=_partitions("name", A, B, MISSING, **OFFSET),
        ),
        [(TXN, Op.WRITE, T), (GROUP, Op.READ, G), _topic(Op.READ)],
        (0, 5),
    ),
    AccessCase(
        a.DESCRIBE_CONFIGS,
        fixed(resources=RESOURCES),
        _on_resources(Op.DESCRIBE_CONFIGS),
        (1, 4),
        hides=("configs",),
    ),
    AccessCase(
        a.ALTER_CONFIGS,
        fixed(resources=RESOURCES, validate_only=True),
        _on_resources(Op.ALTER_CONFIGS),
        (0, 2),
    ),
    AccessCase(
        a.INCREMENTAL_ALTER_CONFIGS,
        fixed(resources=RESOURCES, validate_only=True),
        _on_resources(Op.ALTER_CONFIGS),
        (0, 1),
    ),
    AccessCase(
        a.ALTER_REPLICA_LOG_DIRS,
        fixed(dirs=[{"path": "/nowhere", "topics": [{"name": A, "partitions": [0]}]}]),
        [_cluster(Op.ALTER)],
        (1, 2),
    ),
    AccessCase(
        a.DESCRIBE_LOG_DIRS,
        fixed(topics=[]),
        [_cluster(Op.DESCRIBE)],
        (1, 5),
        hides=("log_dir", "total_bytes", "usable_bytes"),
    ),
    AccessCase(
        a.CREATE_PARTITIONS,
        fixed(
            topics=[{"name": name, "count": 2} for name in (A, B, MISSING)],
            validate_only=True,
            timeout_ms=10_000,
        ),
        [_topic(Op.ALTER)],
        (0, 3),
    ),
    AccessCase(
        a.DELETE_GROUPS,
        fixed(groups_names=["acl-no-group", "acl-other"]),
        [(GROUP, Op.DELETE, "acl-no-group")],
        (0, 2),
    ),
    AccessCase(
        a.ELECT_LEADERS,
        fixed(topic_partitions=[{"topic": A, "partitions": [0]}], timeout_ms=10_000),
        [_cluster(Op.ALTER)],
        (1, 2),
    ),
    AccessCase(
        a.ALTER_PARTITION_REASSIGNMENTS,
        fixed(topics=[], timeout_ms=10_000),
        [_cluster(Op.ALTER)],
        (0, 1),
    ),
    AccessCase(
        a.LIST_PARTITION_REASSIGNMENTS, fixed(topics=None, timeout_ms=10_000), [_cluster(Op.DESCRIBE)]
    ),
    AccessCase(
        a.OFFSET_DELETE,
        fixed(
            group_id="acl-no-group",
            topics=_partitions("name", A, B, MISSING, partition_index=0),
        ),
        [(GROUP, Op.DELETE, "acl-no-group"), _topic(Op.READ)],
    ),
    AccessCase(
        a.OFFSET_DELETE,
        fixed(group_id=H, topics=_partitions("name", B, MISSING, partition_index=0)),
        [(GROUP, Op.DELETE, H), _topic(Op.READ, B)],
    ),
    AccessCase(
        a.DESCRIBE_CLIENT_QUOTAS,
        fixed(components=[{"entity_type": "user", "match_type": 0, "match": "acl-nobody"}]),
        [_cluster(Op.DESCRIBE_CONFIGS)],
        (0, 1),
    ),
    AccessCase(a.ALTER_CLIENT_QUOTAS, fixed(entries=[]), [_cluster(Op.ALTER_CONFIGS)], (0, 1)),
    AccessCase(
        a.DESCRIBE_USER_SCRAM_CREDENTIALS, fixed(users=[{"name": "acl-nobody"}]), [_cluster(Op.DESCRIBE)]
    ),
    AccessCase(
        a.ALTER_USER_SCRAM_CREDENTIALS,
        fixed(deletions=[{"name": "acl-nobody", "mechanism": 1}], upsertions=[]),
        [_cluster(Op.ALTER)],
    ),
    AccessCase(
        a.DESCRIBE_QUORUM,
        fixed(topics=[{"topic_name": "wrong", "partitions": [{"partition_index": 0}]}]),
        [_cluster(Op.DESCRIBE)],
        (0, 2),
        hides=("nodes",),
    ),
    AccessCase(a.UPDATE_FEATURES, fixed(feature_updates=[], timeout_ms=10_000), [_cluster(Op.ALTER)], (1, 2)),
    AccessCase(
        a.DESCRIBE_CLUSTER,
        fixed(include_cluster_authorized_operations=True),
        [_cluster(Op.DESCRIBE), _cluster(Op.CREATE), _cluster(Op.CLUSTER_ACTION)],
        (0, 2),
    ),
    AccessCase(
        a.DESCRIBE_PRODUCERS,
        fixed(topics=[{"name": name, "partition_indexes": [0]} for name in (A, B, MISSING)]),
        [_topic(Op.READ)],
    ),
    AccessCase(
        a.DESCRIBE_TRANSACTIONS,
        fixed(transactional_ids=[T, "acl-other"]),
        [(TXN, Op.DESCRIBE, T), _topic(Op.DESCRIBE)],
        hides=("transaction_start_time_ms", "producer_id", "producer_epoch"),
    ),
    AccessCase(a.LIST_TRANSACTIONS, fixed(), [(TXN, Op.DESCRIBE, T)], (0, 2), hides=("producer_id",)),
    AccessCase(
        a.CONSUMER_GROUP_HEARTBEAT,
        fixed(
            group_id=CONSUMERS,
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=-1,
            subscribed_topic_names=[A, B],
        ),
        [(GROUP, Op.READ, CONSUMERS), _topic(Op.DESCRIBE), _topic(Op.DESCRIBE, B)],
        (0, 1),
    ),
    AccessCase(
        a.CONSUMER_GROUP_DESCRIBE,
        fixed(group_ids=[CONSUMERS, "acl-no-group"], include_authorized_operations=True),
        [(GROUP, Op.DESCRIBE, CONSUMERS), _topic(Op.DESCRIBE), (GROUP, Op.DELETE, CONSUMERS)],
        (0, 1),
        hides=("client_host", "group_epoch", "assignment_epoch", "member_epoch"),
    ),
    AccessCase(a.LIST_CONFIG_RESOURCES, fixed(resource_types=[16]), [_cluster(Op.DESCRIBE_CONFIGS)], (1, 1)),
    AccessCase(
        a.DESCRIBE_TOPIC_PARTITIONS,
        fixed(topics=[{"name": name} for name in (A, B, MISSING)]),
        [_topic(Op.DESCRIBE), _topic(Op.WRITE), _topic(Op.DESCRIBE, MISSING)],
        hides=("topic_id",),
    ),
    AccessCase(
        a.DESCRIBE_TOPIC_PARTITIONS,
        fixed(topics=[], cursor={"topic_name": A, "partition_index": 0}, response_partition_limit=1),
        [_topic(Op.DESCRIBE, B), _topic(Op.DESCRIBE)],
        hides=("topic_id",),
    ),
    AccessCase(
        a.DESCRIBE_ACLS,
        fixed(resource_type_filter=7, pattern_type_filter=3, operation=1, permission_type=1),
        [_cluster(Op.DESCRIBE)],
        (1, 3),
    ),
    AccessCase(a.CREATE_ACLS, fixed(creations=[]), [_cluster(Op.ALTER)], (1, 3)),
    AccessCase(
        a.DELETE_ACLS,
        fixed(
            filters=[
                {
                    "resource_type_filter": 7,
                    "pattern_type_filter": 3,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        ),
        [_cluster(Op.ALTER)],
        (1, 3),
    ),
)
