"""Metadata (key 3): brokers, topics, partitions and their leaders.

An empty list requests all topics in version 0 and none in later versions, where null requests all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.protocol_kafka.messages.api import METADATA
from tidelog.plugins.schema.declare import array, boolean, int16, int32, string, struct, uuid
from tidelog.plugins.schema.types import INT32, ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid

NO_AUTHORIZED_OPERATIONS: Final = -0x80000000
"""The bit field of authorized operations when it was not requested."""


@struct()
class MetadataRequestTopic:
    """A topic by name, or by id when the name is null."""

    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    name: str | None = string(nullable="10+")


@struct(METADATA.versions)
class MetadataRequest:
    """Request topics; null is all of them."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10", default=False)
    include_topic_authorized_operations: bool = boolean(versions="8+", default=False)


@struct()
class MetadataResponseBroker:
    """A broker and its advertised address."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(versions="1+", nullable="1+", default=None, ignorable=True)


@struct()
class MetadataResponsePartition:
    """A partition; `leader_id` is -1 when it has no leader."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    offline_replicas: list[int] = array(INT32, versions="5+", factory=list, ignorable=True)


@struct()
class MetadataResponseTopic:
    """A topic; its name is null when it was requested by an unknown id."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean(versions="1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(versions="8+", default=NO_AUTHORIZED_OPERATIONS)


@struct(METADATA.versions)
class MetadataResponse:
    """Metadata response; `controller_id` is -1 when it is unknown."""

    throttle_time_ms: int = int32(versions="3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(versions="8-10", default=NO_AUTHORIZED_OPERATIONS)
    error_code: int = int16(versions="13+", default=0, ignorable=True)
