"""Changes of configurations, partitions and records that cannot be; what could be is only asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

from .case import KAFKA_STUMBLES, NOTHING, OK, Case, Differs
from .raw_client import NODE_ID, TIMEOUT_MS, RawClient
from .requests import Sent, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Sends

UNKNOWN, BAD_NAME, BAD_REQUEST = "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION", "INVALID_REQUEST"
BAD_CONFIG, BAD_PARTITIONS, BAD_ASSIGNMENT = (
    "INVALID_CONFIG",
    "INVALID_PARTITIONS",
    "INVALID_REPLICA_ASSIGNMENT",
)
OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"

Change = tuple[str, int, str | None]


def _alters(*changes: Change, kind: int = TOPIC_RESOURCE, name: str | None = None, times: int = 1) -> Sends:
    """Single keys, which are only checked."""

    def build(client: RawClient) -> Sent:
        resource = IncrementalAlterConfigsResource(
            resource_type=kind,
            resource_name=client.topic if name is None else name,
            configs=[
                IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource] * times, validate_only=True)
        return ask(apis.INCREMENTAL_ALTER_CONFIGS, 1, request)

    return build


def _replaces(*settings: tuple[str, str | None], name: str | None = None) -> Sends:
    """A whole configuration, which is only checked."""

    def build(client: RawClient) -> Sent:
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=client.topic if name is None else name,
            configs=[AlterableConfig(name=key, value=value) for key, value in settings],
        )
        return ask(apis.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[resource], validate_only=True))

    return build


def _grows(
    count: int, brokers: Sequence[list[int]] | None = None, *, name: str | None = None, times: int = 1
) -> Sends:
    """More partitions, which are only checked; the client's topic has two."""

    def build(client: RawClient) -> Sent:
        topic = CreatePartitionsTopic(
            name=client.topic if name is None else name,
            count=count,
            assignments=None
            if brokers is None
            else [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers],
        )
        request = CreatePartitionsRequest(topics=[topic] * times, timeout_ms=TIMEOUT_MS, validate_only=True)
        return ask(apis.CREATE_PARTITIONS, 3, request)

    return build


def _deletes(partition: int, offset: int, *, name: str | None = None) -> Sends:
    def build(client: RawClient) -> Sent:
        asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = DeleteRecordsTopic(name=client.topic if name is None else name, partitions=[asked])
        return ask(apis.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))

    return build


KEYS = (
    Case("sets a key", _alters(("flush.ms", SET, "5")), OK),
    Case("sets a key to a word", _alters(("flush.ms", SET, "soon")), BAD_CONFIG),
    Case("sets a key out of range", _alters(("flush.ms", SET, "-5")), BAD_CONFIG),
    Case("sets a key that is not there", _alters(("no.such.key", SET, "5")), BAD_CONFIG),
    Case("sets a key to null", _alters(("flush.ms", SET, None)), BAD_REQUEST),
    Case("deletes a key that is not set", _alters(("flush.ms", DELETE, None)), OK),
    Case("deletes a key that is not there", _alters(("no.such.key", DELETE, None)), OK),
    Case("appends to a number", _alters(("flush.ms", APPEND, "5")), BAD_CONFIG),
    Case("subtracts from a number", _alters(("flush.ms", SUBTRACT, "5")), BAD_CONFIG),
    Case("appends null", _alters(("cleanup.policy", APPEND, None)), BAD_REQUEST),
    Case("appends to a list", _alters(("cleanup.policy", APPEND, "compact")), OK),
    Case("appends what a list cannot have", _alters(("cleanup.policy", APPEND, "burn")), BAD_CONFIG),
    Case(
        "does an unknown thing",
        _alters(("flush.ms", 9, "5")),
        "UNKNOWN_SERVER_ERROR",
        tidelog=Differs(BAD_REQUEST, KAFKA_STUMBLES),
    ),
    Case("changes a key twice", _alters(("flush.ms", SET, "5"), ("flush.ms", SET, "6")), BAD_REQUEST),
    Case("changes nothing", _alters(), OK),
    Case(
        "changes a topic twice",
        _alters(("flush.ms", SET, "5"), times=2),
        f"{BAD_REQUEST},{BAD_REQUEST}",
    ),
    Case("changes nothing at all", _alters(times=0), NOTHING),
    Case("of a topic that is not there", _alters(("flush.ms", SET, "5"), name="nowhere"), UNKNOWN),
    Case("of a topic named with a slash", _alters(("flush.ms", SET, "5"), name="a/b"), BAD_NAME),
    Case("of a topic without a name", _alters(("flush.ms", SET, "5"), name=""), BAD_REQUEST),
    Case("of a resource of type 99", _alters(kind=99), BAD_REQUEST),
)

REPLACEMENTS = (
    Case("replaces by nothing", _replaces(), OK),
    Case("replaces by a bad value", _replaces(("flush.ms", "soon")), BAD_CONFIG),
    Case("replaces by null", _replaces(("flush.ms", None)), BAD_REQUEST),
    Case("replaces by a key twice", _replaces(("flush.ms", "1"), ("flush.ms", "2")), BAD_REQUEST),
    Case("replaces that of a topic that is not there", _replaces(name="nowhere"), UNKNOWN),
)

BROKER, ALL_BROKERS = str(NODE_ID), ""
BROKERS = (
    *(
        Case(
            f"sets a key of {'this broker' if name else 'all brokers'}",
            _alters(("message.max.bytes", SET, "1000"), kind=BROKER_RESOURCE, name=name),
            OK,
        )
        for name in (BROKER, ALL_BROKERS)
    ),
    Case(
        "sets a key of the broker to a word",
        _alters(("message.max.bytes", SET, "many"), kind=BROKER_RESOURCE, name=BROKER),
        BAD_REQUEST,
    ),
    Case(
        "sets a key that only a start can set",
        _alters(("node.id", SET, "5"), kind=BROKER_RESOURCE, name=BROKER),
        BAD_REQUEST,
    ),
    Case(
        "sets a key of another broker",
        _alters(("message.max.bytes", SET, "1000"), kind=BROKER_RESOURCE, name="99"),
        BAD_REQUEST,
    ),
    Case("of a broker whose id is no number", _alters(kind=BROKER_RESOURCE, name="one"), BAD_REQUEST),
)

PARTITIONS = (
    Case("grows", _grows(3), OK),
    Case("grows to what it has", _grows(2), BAD_PARTITIONS),
    Case("grows to fewer", _grows(1), BAD_PARTITIONS),
    Case("grows to fewer than nothing", _grows(-1), BAD_PARTITIONS),
    Case(
        "grows without bounds",
        _grows(2**31 - 1),
        "POLICY_VIOLATION",
    ),
    Case("grows where it is told", _grows(3, [[NODE_ID]]), OK),
    Case("grows by fewer than assigned", _grows(3, [[NODE_ID], [NODE_ID]]), BAD_ASSIGNMENT),
    Case("grows on another broker", _grows(3, [[99]]), BAD_ASSIGNMENT),
    Case("grows on a broker twice", _grows(3, [[NODE_ID, NODE_ID]]), BAD_ASSIGNMENT),
    Case("grows on no broker", _grows(3, [[]]), BAD_ASSIGNMENT),
    Case("grows twice", _grows(3, times=2), BAD_REQUEST),
    Case("grows what is not there", _grows(3, name="nowhere"), UNKNOWN),
    Case("grows nothing", _grows(3, times=0), NOTHING),
)

RECORDS = (
    Case("deletes no record", _deletes(0, 0), OK),
    Case("deletes beyond the end", _deletes(0, 10**9), OUT_OF_RANGE),
    Case("deletes below -1", _deletes(0, -2), OUT_OF_RANGE),
    Case("deletes in a partition that is not there", _deletes(9, 0), UNKNOWN),
    Case("deletes in a negative partition", _deletes(-1, 0), UNKNOWN),
    Case("deletes in a topic that is not there", _deletes(0, 0, name="nowhere"), UNKNOWN),
)

CASES = (*KEYS, *REPLACEMENTS, *BROKERS, *PARTITIONS, *RECORDS)
