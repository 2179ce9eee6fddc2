"""ListOffsets of times that do not exist, or not in that version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .case import ALL_VERSIONS, CLOSED, KAFKA_STUMBLES, NOTHING, OK, Case, Differs
from .raw_client import RawClient
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends

NOT_IN_VERSION, UNKNOWN = "UNSUPPORTED_VERSION", "UNKNOWN_TOPIC_OR_PARTITION"
TWICE = "INVALID_REQUEST"


def _sends(
    time: int = LATEST_TIMESTAMP,
    version: int = 7,
    *,
    topic: str | None = None,
    partition: int = 0,
    epoch: int = -1,
    times: int = 1,
    **fields: Any,
) -> Sends:
    def build(client: RawClient) -> Sent:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=time, current_leader_epoch=epoch)
        named = ListOffsetsTopic(name=client.topic if topic is None else topic, partitions=[asked] * times)
        settings: dict[str, Any] = {"replica_id": -1, **fields}
        return ask(apis.LIST_OFFSETS, version, ListOffsetsRequest(topics=[named], **settings))

    return build


def _nothing(_: RawClient) -> Sent:
    return ask(apis.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[]))


SPECIAL_TIMES = (
    Case("the largest time in version 1", _sends(MAX_TIMESTAMP, 1), NOT_IN_VERSION),
    Case("the largest time in version 6", _sends(MAX_TIMESTAMP, 6), NOT_IN_VERSION),
    Case("the largest time in version 7", _sends(MAX_TIMESTAMP, 7), OK),
    Case("the earliest local in version 7", _sends(EARLIEST_LOCAL_TIMESTAMP, 7), NOT_IN_VERSION),
    Case("the earliest local in version 8", _sends(EARLIEST_LOCAL_TIMESTAMP, 8), OK),
    Case("the latest tiered in version 8", _sends(LATEST_TIERED_TIMESTAMP, 8), NOT_IN_VERSION),
    Case("the latest tiered in version 9", _sends(LATEST_TIERED_TIMESTAMP, 9), OK),
    Case("the pending upload in version 10", _sends(EARLIEST_PENDING_UPLOAD_TIMESTAMP, 10), NOT_IN_VERSION),
    Case("the pending upload in version 11", _sends(EARLIEST_PENDING_UPLOAD_TIMESTAMP, 11), OK),
    Case("time -7 in version 5", _sends(-7, 5), NOT_IN_VERSION),
    Case("time -7 in version 11", _sends(-7, 11), NOT_IN_VERSION),
    Case("time -2^63", _sends(-(2**63)), NOT_IN_VERSION),
    Case("time 2^63-1", _sends(2**63 - 1), OK),
)

TARGETS = (
    Case("a topic that is not there", _sends(topic="nowhere"), UNKNOWN),
    Case("a topic name with a slash", _sends(topic="a/b"), UNKNOWN),
    Case("a partition that is not there", _sends(partition=9), UNKNOWN),
    Case("a negative partition", _sends(partition=-1), UNKNOWN),
    Case("a partition twice", _sends(times=2), TWICE),
    Case("nothing", _nothing, NOTHING),
    Case("a leader epoch that is long gone", _sends(epoch=-2), "FENCED_LEADER_EPOCH"),
    Case("a leader epoch that is to come", _sends(epoch=99), "UNKNOWN_LEADER_EPOCH"),
)

READERS = (
    Case(
        "isolation level 7",
        _sends(isolation_level=7),
        "UNKNOWN_SERVER_ERROR",
        log="isolation level 7 is neither 0 nor 1",
        tidelog=Differs(CLOSED, KAFKA_STUMBLES),
    ),
    Case("a follower", _sends(replica_id=55), OK),
    Case("a negative timeout", _sends(version=10, timeout_ms=-1), OK),
    Case("version 0", _sends(version=0), CLOSED, tidelog=Differs(OK, ALL_VERSIONS)),
)

CASES = (*SPECIAL_TIMES, *TARGETS, *READERS)
