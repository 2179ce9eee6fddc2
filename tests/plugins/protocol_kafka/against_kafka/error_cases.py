"""Requests that one broker refuses, each with the error that the answer has to have, of it alone.

docs/protocol.md names them (`make docs`); `test_errors.py` sends them to Apache Kafka and to tidelog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.records.message_set import Message, encode_message
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .prepared import (
    CLASSIC,
    CONSUMER,
    INSTANCE,
    JOINING,
    MEMBER,
    TOPIC,
    TRANSACTION,
    Prepared,
    Values,
    beating,
    creating,
    joining,
    producing,
)

ZSTD: Final = 4
YEAR_2100_MS: Final = 4_102_444_800_000
UNKNOWN_ID: Final = b"\x11" * 16
VALUE: Final = make_batch([b"value"])
PARTITION: Final[Values] = {"name": TOPIC, "partitions": [0]}


class Case(NamedTuple):
    """A request in a version, and its error; earlier cases may have changed what it meets."""

    error: ErrorCode
    api: Api
    version: int
    values: Callable[[Prepared], Values]


def case(error: ErrorCode, api: Api, version: int, /, **values: Any) -> Case:
    """Return a case whose request is the same for every broker."""
    return Case(error, api, version, lambda _: values)


def produced(error: ErrorCode, version: int, records: bytes | bytearray, **changes: Any) -> Case:
    """Return a case of Produce."""
    return case(error, apis.PRODUCE, version, **producing(records, **changes))


def compressed(codec: int) -> bytearray:
    """Return a batch whose header names a codec."""
    return pack_batch(parse_header(VALUE)._replace(attributes=codec), VALUE[HEADER_BYTES:])


def corrupt() -> bytearray:
    """Return a batch whose CRC is that of another one."""
    batch = bytearray(VALUE)
    batch[-1] ^= 1
    return batch


def message_set() -> bytearray:
    """Return a message of format 1."""
    out = bytearray()
    encode_message(out, Message(0, 0, b"k", b"v"), 1)
    return out


def fetching(version: int, error: ErrorCode, partition: Values, **changes: Any) -> Case:
    """Return a case of Fetch."""
    part = {"partition": 0, "partition_max_bytes": 1000, **partition}
    topic = {"topic": TOPIC, "topic_id": UNKNOWN_ID, "partitions": [part]}
    return case(error, apis.FETCH, version, topics=[topic], **changes)


def adding(prepared: Prepared, *topics: Values, **changes: Any) -> Values:
    """Add partitions to a transaction."""
    values = {"transactional_id": TRANSACTION, **prepared.producer, **changes}
    return {f"v3_and_below_{name}": value for name, value in values.items()} | {
        "v3_and_below_topics": list(topics)
    }


def committing(group: str = CLASSIC, metadata: str | None = None, **changes: Any) -> Values:
    """Commit an offset."""
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": metadata}
    return {"group_id": group, "topics": [{"name": TOPIC, "partitions": [part]}], **changes}


def committing_by_id(error: ErrorCode, group: str, topic_id: bytes | None = None, **changes: Any) -> Case:
    """Return a case of TxnOffsetCommit 6, by default of the topic that there is (KIP-1319)."""
    part = {"partition_index": 0, "committed_offset": 1}

    def values(prepared: Prepared) -> Values:
        topic = {"topic_id": prepared.topic_id if topic_id is None else topic_id, "partitions": [part]}
        producer = {"transactional_id": TRANSACTION, **prepared.producer}
        return {**producer, "group_id": group, "topics": [topic], **changes}

    return Case(error, apis.TXN_OFFSET_COMMIT, 6, values)


def introducing(error: ErrorCode, cluster_id: str | None, node_id: int | None) -> Case:
    """Return a case of ApiVersions 5 of a client that expects a broker (KIP-1242); empty: this one's."""

    def values(prepared: Prepared) -> Values:
        return {
            "client_software_name": "tests",
            "client_software_version": "1",
            "cluster_id": prepared.cluster_id if cluster_id == "" else cluster_id,
            "node_id": prepared.node_id if node_id is None else node_id,
        }

    return Case(error, apis.API_VERSIONS, 5, values)


def in_transaction(prepared: Prepared, sequence: int, transactional: bool, **changes: Any) -> bytearray:
    """Return a batch of the transactional producer."""
    producer = {**prepared.producer, **changes}
    return make_batch([b"v"], base_sequence=sequence, transactional=transactional, **producer)


E_: Final = ErrorCode
NEW: Final = "errors-new"
OTHER_OF_INSTANCE: Final[Values] = {"member_id": "m", "group_instance_id": INSTANCE}
PENDING: Final = "errors-pending"
CREDENTIAL: Final[Values] = {"name": "errors", "salt": b"s", "salted_password": b"p"}
RECORDS: Final = [
    fetching(12, E_.OFFSET_OUT_OF_RANGE, {"fetch_offset": 999}),
    fetching(4, E_.OFFSET_OUT_OF_RANGE, {"fetch_offset": 999}),
    case(
        E_.OFFSET_OUT_OF_RANGE,
        apis.DELETE_RECORDS,
        2,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 999}]}],
        timeout_ms=1000,
    ),
    produced(E_.CORRUPT_MESSAGE, 9, corrupt()),
    produced(E_.UNKNOWN_TOPIC_OR_PARTITION, 9, VALUE, partition=7),
    fetching(12, E_.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 7}),
    case(
        E_.UNKNOWN_TOPIC_OR_PARTITION,
        apis.LIST_OFFSETS,
        7,
        replica_id=-1,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 7, "timestamp": -1}]}],
    ),
    produced(E_.MESSAGE_TOO_LARGE, 9, make_batch([bytes(200)]), topic="errors-small"),
    produced(E_.INVALID_TOPIC_EXCEPTION, 9, VALUE, topic="__consumer_offsets"),
    produced(E_.RECORD_LIST_TOO_LARGE, 9, make_batch([bytes(1_100_000)]), topic="errors-segment"),
    produced(E_.INVALID_REQUIRED_ACKS, 9, VALUE, acks=2),
    produced(E_.INVALID_TIMESTAMP, 9, make_batch([b"v"], timestamps=YEAR_2100_MS), topic="errors-time"),
    produced(E_.UNSUPPORTED_COMPRESSION_TYPE, 6, compressed(ZSTD)),
    produced(E_.INVALID_RECORD, 9, make_batch([b"v"]), topic="errors-compacted"),
    produced(E_.INVALID_RECORD, 3, message_set()),
    fetching(13, E_.UNKNOWN_TOPIC_ID, {}),
    fetching(12, E_.FETCH_SESSION_ID_NOT_FOUND, {}, session_id=12345, session_epoch=1),
    fetching(12, E_.UNKNOWN_LEADER_EPOCH, {"current_leader_epoch": 99}),
    case(
        E_.UNKNOWN_LEADER_EPOCH,
        apis.LIST_OFFSETS,
        7,
        replica_id=-1,
        topics=[
            {
                "name": TOPIC,
                "partitions": [{"partition_index": 0, "current_leader_epoch": 99, "timestamp": -1}],
            }
        ],
    ),
    case(
        E_.UNKNOWN_LEADER_EPOCH,
        apis.OFFSET_FOR_LEADER_EPOCH,
        4,
        topics=[
            {"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": 99, "leader_epoch": 0}]}
        ],
    ),
    case(
        E_.UNSUPPORTED_VERSION,
        apis.LIST_OFFSETS,
        6,
        replica_id=-1,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -3}]}],
    ),
]
TOPICS_AND_CLUSTER: Final = [
    introducing(E_.REBOOTSTRAP_REQUIRED, "another", None),
    introducing(E_.REBOOTSTRAP_REQUIRED, "", 99),
    introducing(E_.INVALID_REQUEST, "", -1),
    introducing(E_.INVALID_REQUEST, None, None),
    case(E_.TOPIC_ALREADY_EXISTS, apis.CREATE_TOPICS, 7, **creating(TOPIC)),
    case(E_.INVALID_TOPIC_EXCEPTION, apis.CREATE_TOPICS, 7, **creating("a b")),
    case(E_.INVALID_PARTITIONS, apis.CREATE_TOPICS, 7, **creating(NEW, num_partitions=0)),
    case(E_.INVALID_REPLICATION_FACTOR, apis.CREATE_TOPICS, 7, **creating(NEW, replication_factor=3)),
    case(
        E_.INVALID_REPLICA_ASSIGNMENT,
        apis.CREATE_TOPICS,
        7,
        **creating(
            NEW,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[{"partition_index": 0, "broker_ids": [9]}],
        ),
    ),
    case(E_.INVALID_CONFIG, apis.CREATE_TOPICS, 7, **creating(NEW, {"retention.ms": "long"})),
    case(
        E_.INVALID_REQUEST,
        apis.CREATE_TOPICS,
        7,
        topics=creating(NEW)["topics"] * 2,
        timeout_ms=1000,
    ),
    case(E_.POLICY_VIOLATION, apis.CREATE_TOPICS, 7, **creating(NEW, num_partitions=10_001)),
    case(
        E_.INVALID_PARTITIONS,
        apis.CREATE_PARTITIONS,
        3,
        topics=[{"name": TOPIC, "count": 1}],
        timeout_ms=1000,
    ),
    case(E_.UNKNOWN_TOPIC_OR_PARTITION, apis.DELETE_TOPICS, 5, topic_names=["errors-none"], timeout_ms=1000),
    case(E_.UNKNOWN_TOPIC_ID, apis.DELETE_TOPICS, 6, topics=[{"topic_id": UNKNOWN_ID}], timeout_ms=1000),
    case(
        E_.UNKNOWN_TOPIC_OR_PARTITION,
        apis.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": 2, "resource_name": "errors-none"}],
    ),
    case(
        E_.LOG_DIR_NOT_FOUND,
        apis.ALTER_REPLICA_LOG_DIRS,
        2,
        dirs=[{"path": "/no/such/directory", "topics": [PARTITION]}],
    ),
    case(
        E_.ELECTION_NOT_NEEDED,
        apis.ELECT_LEADERS,
        2,
        topic_partitions=[{"topic": TOPIC, "partitions": [0]}],
    ),
    case(
        E_.NO_REASSIGNMENT_IN_PROGRESS,
        apis.ALTER_PARTITION_REASSIGNMENTS,
        0,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}],
    ),
    case(E_.MISMATCHED_ENDPOINT_TYPE, apis.DESCRIBE_CLUSTER, 1, endpoint_type=2),
    case(E_.UNSUPPORTED_ENDPOINT_TYPE, apis.DESCRIBE_CLUSTER, 1, endpoint_type=3),
    case(
        E_.INVALID_UPDATE_VERSION,
        apis.UPDATE_FEATURES,
        1,
        feature_updates=[{"feature": "group.version", "max_version_level": 99}],
        validate_only=True,
    ),
    case(E_.UNSUPPORTED_VERSION, apis.LIST_CONFIG_RESOURCES, 1, resource_types=[99]),
    case(E_.SECURITY_DISABLED, apis.DESCRIBE_ACLS, 3, resource_type_filter=1, operation=1, permission_type=1),
    case(
        E_.UNSUPPORTED_SASL_MECHANISM,
        apis.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        upsertions=[{**CREDENTIAL, "mechanism": 9, "iterations": 4096}],
    ),
    case(
        E_.UNACCEPTABLE_CREDENTIAL,
        apis.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        upsertions=[{**CREDENTIAL, "mechanism": 1, "iterations": 1}],
    ),
    case(
        E_.DUPLICATE_RESOURCE,
        apis.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        upsertions=[{**CREDENTIAL, "mechanism": 1, "iterations": 4096}] * 2,
    ),
    case(E_.RESOURCE_NOT_FOUND, apis.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": "errors"}]),
    case(
        E_.INVALID_REGULAR_EXPRESSION,
        apis.LIST_TRANSACTIONS,
        2,
        transactional_id_pattern="(",
    ),
]
GROUPS: Final = [
    case(E_.INVALID_GROUP_ID, apis.JOIN_GROUP, 7, **joining("")),
    case(E_.INVALID_SESSION_TIMEOUT, apis.JOIN_GROUP, 7, **joining(NEW, session_timeout_ms=1)),
    case(E_.MEMBER_ID_REQUIRED, apis.JOIN_GROUP, 4, **joining(NEW)),
    case(E_.UNKNOWN_MEMBER_ID, apis.JOIN_GROUP, 7, **joining(CLASSIC, member_id="m")),
    case(E_.INCONSISTENT_GROUP_PROTOCOL, apis.JOIN_GROUP, 3, **joining(CLASSIC, protocol_type="other")),
    case(
        E_.FENCED_INSTANCE_ID,
        apis.JOIN_GROUP,
        7,
        **joining(CLASSIC, **OTHER_OF_INSTANCE),
    ),
    case(E_.UNKNOWN_MEMBER_ID, apis.HEARTBEAT, 4, group_id=CLASSIC, member_id="m", generation_id=1),
    Case(
        E_.ILLEGAL_GENERATION,
        apis.HEARTBEAT,
        4,
        lambda prepared: {"group_id": CLASSIC, **prepared.member, "generation_id": 99},
    ),
    case(
        E_.FENCED_INSTANCE_ID,
        apis.HEARTBEAT,
        4,
        group_id=CLASSIC,
        member_id="m",
        generation_id=1,
        group_instance_id=INSTANCE,
    ),
    case(E_.UNKNOWN_MEMBER_ID, apis.SYNC_GROUP, 3, group_id=CLASSIC, member_id="m", generation_id=1),
    case(E_.UNKNOWN_MEMBER_ID, apis.LEAVE_GROUP, 5, group_id=CLASSIC, members=[{"member_id": "m"}]),
    Case(
        E_.REBALANCE_IN_PROGRESS,
        apis.OFFSET_COMMIT,
        8,
        lambda prepared: committing(
            JOINING,
            member_id=prepared.joining_member["member_id"],
            generation_id_or_member_epoch=prepared.joining_member["generation_id"],
        ),
    ),
    Case(
        E_.OFFSET_METADATA_TOO_LARGE,
        apis.OFFSET_COMMIT,
        8,
        lambda prepared: committing(
            metadata="m" * 5000,
            member_id=prepared.member["member_id"],
            generation_id_or_member_epoch=prepared.member["generation_id"],
        ),
    ),
    case(E_.UNKNOWN_MEMBER_ID, apis.OFFSET_COMMIT, 8, **committing()),
    *(
        case(error, apis.DELETE_GROUPS, version, groups_names=[group])
        for version in (2, 3)
        for error, group in ((E_.NON_EMPTY_GROUP, CLASSIC), (E_.GROUP_ID_NOT_FOUND, "errors-none"))
    ),
    case(E_.GROUP_ID_NOT_FOUND, apis.DESCRIBE_GROUPS, 6, groups=["errors-none"]),
    case(
        E_.GROUP_SUBSCRIBED_TO_TOPIC,
        apis.OFFSET_DELETE,
        0,
        group_id=CLASSIC,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0}]}],
    ),
    case(E_.FENCED_MEMBER_EPOCH, apis.CONSUMER_GROUP_HEARTBEAT, 1, **beating(member_epoch=99)),
    case(
        E_.UNRELEASED_INSTANCE_ID,
        apis.CONSUMER_GROUP_HEARTBEAT,
        1,
        **beating(member_id="BBBBBBBBBBBBBBBBBBBBBB", instance_id=INSTANCE),
    ),
    case(
        E_.FENCED_INSTANCE_ID,
        apis.CONSUMER_GROUP_HEARTBEAT,
        1,
        **beating(member_id="BBBBBBBBBBBBBBBBBBBBBB", instance_id=INSTANCE, member_epoch=1),
    ),
    case(
        E_.UNSUPPORTED_ASSIGNOR,
        apis.CONSUMER_GROUP_HEARTBEAT,
        1,
        **beating(group_id=NEW, server_assignor="none"),
    ),
    case(
        E_.INVALID_REGULAR_EXPRESSION,
        apis.CONSUMER_GROUP_HEARTBEAT,
        1,
        **beating(group_id=NEW, subscribed_topic_regex="("),
    ),
    case(E_.INVALID_REQUEST, apis.CONSUMER_GROUP_HEARTBEAT, 1, **beating(rebalance_timeout_ms=-1)),
    case(E_.GROUP_ID_NOT_FOUND, apis.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["errors-none"]),
    case(
        E_.STALE_MEMBER_EPOCH,
        apis.OFFSET_COMMIT,
        9,
        **committing(CONSUMER, member_id="AAAAAAAAAAAAAAAAAAAAAA", generation_id_or_member_epoch=99),
    ),
]
TRANSACTIONS: Final = [
    case(
        E_.INVALID_TRANSACTION_TIMEOUT,
        apis.INIT_PRODUCER_ID,
        4,
        transactional_id=TRANSACTION,
        transaction_timeout_ms=2**31 - 1,
    ),
    case(E_.INVALID_REQUEST, apis.INIT_PRODUCER_ID, 4, transactional_id="", transaction_timeout_ms=1000),
    case(E_.TRANSACTIONAL_ID_NOT_FOUND, apis.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["errors-none"]),
    Case(
        E_.INVALID_PRODUCER_ID_MAPPING,
        apis.ADD_PARTITIONS_TO_TXN,
        3,
        lambda prepared: adding(prepared, PARTITION, producer_id=987_654),
    ),
    Case(
        E_.OPERATION_NOT_ATTEMPTED,
        apis.ADD_PARTITIONS_TO_TXN,
        3,
        lambda prepared: adding(prepared, {"name": TOPIC, "partitions": [0, 7]}),
    ),
    Case(
        E_.PRODUCER_FENCED,
        apis.ADD_PARTITIONS_TO_TXN,
        3,
        lambda prepared: adding(prepared, PARTITION, producer_epoch=99),
    ),
    Case(
        E_.INVALID_PRODUCER_EPOCH,
        apis.ADD_PARTITIONS_TO_TXN,
        1,
        lambda prepared: adding(prepared, PARTITION, producer_epoch=99),
    ),
    Case(
        E_.INVALID_TXN_STATE,
        apis.END_TXN,
        3,
        lambda prepared: {"transactional_id": TRANSACTION, **prepared.producer, "committed": True},
    ),
    Case(
        E_.INVALID_TXN_STATE,
        apis.PRODUCE,
        9,
        lambda prepared: producing(in_transaction(prepared, 0, True), transactional_id=TRANSACTION),
    ),
    Case(
        E_.NONE,
        apis.ADD_OFFSETS_TO_TXN,
        3,
        lambda prepared: {"transactional_id": TRANSACTION, **prepared.producer, "group_id": PENDING},
    ),
    Case(
        E_.NONE,
        apis.TXN_OFFSET_COMMIT,
        3,
        lambda prepared: {
            "transactional_id": TRANSACTION,
            **prepared.producer,
            **committing(PENDING),
        },
    ),
    case(
        E_.UNSTABLE_OFFSET_COMMIT,
        apis.OFFSET_FETCH,
        8,
        groups=[{"group_id": PENDING, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}],
        require_stable=True,
    ),
    Case(
        E_.UNKNOWN_MEMBER_ID,
        apis.TXN_OFFSET_COMMIT,
        3,
        lambda prepared: {
            "transactional_id": TRANSACTION,
            **prepared.producer,
            **committing(PENDING, generation_id=5),
        },
    ),
    committing_by_id(E_.NONE, PENDING),
    committing_by_id(E_.UNKNOWN_TOPIC_ID, PENDING, UNKNOWN_ID),
    committing_by_id(E_.UNKNOWN_TOPIC_ID, PENDING, bytes(16)),
    committing_by_id(E_.UNKNOWN_MEMBER_ID, PENDING, generation_id=5),
    committing_by_id(E_.UNKNOWN_MEMBER_ID, CLASSIC, generation_id=5, member_id="m"),
    committing_by_id(E_.GROUP_ID_NOT_FOUND, "errors-none", generation_id=5, member_id="m"),
    committing_by_id(E_.STALE_MEMBER_EPOCH, CONSUMER, generation_id=99, member_id=MEMBER),
    produced(E_.NONE, 9, make_batch([b"v"], producer_id=777_000, producer_epoch=2, base_sequence=0)),
    produced(
        E_.OUT_OF_ORDER_SEQUENCE_NUMBER,
        9,
        make_batch([b"v"], producer_id=777_000, producer_epoch=2, base_sequence=5),
    ),
    produced(
        E_.INVALID_PRODUCER_EPOCH,
        9,
        make_batch([b"v"], producer_id=777_000, producer_epoch=1, base_sequence=1),
    ),
    *(
        case(
            error,
            apis.WRITE_TXN_MARKERS,
            1,
            markers=[
                {
                    "producer_id": 777_001,
                    "producer_epoch": 1,
                    "transaction_result": False,
                    "topics": [{"name": TOPIC, "partition_indexes": [0]}],
                    "coordinator_epoch": epoch,
                }
            ],
        )
        for error, epoch in ((E_.NONE, 5), (E_.TRANSACTION_COORDINATOR_FENCED, 4))
    ),
]
# Members and transactions that are prepared have timeouts, so their cases come first.
CASES: Final = [*GROUPS, *TRANSACTIONS, *RECORDS, *TOPICS_AND_CLUSTER]
