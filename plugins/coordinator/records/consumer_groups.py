"""Records of groups of the consumer protocol, as they are in `__consumer_offsets`.

A key begins with its type (int16) and is not flexible; a value begins with its version (int16) and is.
Source: the schemas of Apache Kafka 4.3's group coordinator; KIP-848, KIP-1101 (metadata hash),
KIP-1251 (assignment epochs), KIP-1263 (assignment timestamp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.codecs.declare import (
    VersionSpan,
    array,
    byte_string,
    int8,
    int32,
    int64,
    nested,
    string,
    struct,
    uuid,
)
from tidelog.plugins.protocol_kafka.codecs.types import INT32, STRING

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.codecs.types import Uuid

_KEY = VersionSpan(0, 0)
_VALUE = VersionSpan(0, 0, flexible=0)


@struct(_KEY)
class GroupKey:
    """A key that names a group: types 3, 4 and 6."""

    group_id: str = string()


@struct(_KEY)
class MemberKey:
    """A key that names a member: types 5, 7 and 8."""

    group_id: str = string()
    member_id: str = string()


@struct(_KEY)
class RegularExpressionKey:
    """A key that names a regular expression: type 16."""

    group_id: str = string()
    regular_expression: str = string()


@struct(_VALUE)
class ConsumerGroupMetadataValue:
    """Type 3: the group's epoch."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


@struct()
class ClassicProtocolValue:
    """A protocol of a classic member."""

    name: str = string()
    metadata: bytes = byte_string()


@struct(frozen=True)
class ClassicMemberMetadata:
    """What is known of a member because it speaks the classic protocol."""

    session_timeout_ms: int = int32(default=0)
    supported_protocols: list[ClassicProtocolValue] = array(ClassicProtocolValue, factory=list)


@struct(_VALUE)
class ConsumerGroupMemberMetadataValue:
    """Type 5: what a member wants.

    A member that speaks the consumer protocol has null as its classic metadata, which is written: to Kafka a
    record without that tag is of a classic member that has no protocols.
    """

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0, default=ClassicMemberMetadata()
    )


@struct(_VALUE)
class ConsumerGroupTargetAssignmentMetadataValue:
    """Type 6: which epoch the target assignment is for, and when it was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0, ignorable=True)


@struct()
class TargetPartitions:
    """Some partitions of a topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = array(INT32)


@struct(_VALUE)
class ConsumerGroupTargetAssignmentMemberValue:
    """Type 7: what a member shall have."""

    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


@struct()
class CurrentPartitions:
    """Some partitions of a topic; brokers before KIP-1251 wrote no epochs."""

    topic_id: Uuid = uuid()
    partitions: list[int] = array(INT32)
    assignment_epochs: list[int] | None = array(INT32, nullable="0+", tag=0, factory=list)


@struct(_VALUE)
class ConsumerGroupCurrentMemberAssignmentValue:
    """Type 8: what a member has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentPartitions] = array(CurrentPartitions)
    partitions_pending_revocation: list[CurrentPartitions] = array(CurrentPartitions)


@struct(_VALUE)
class ConsumerGroupRegularExpressionValue:
    """Type 16: the topics that a regular expression means."""

    topics: list[str] = array(STRING)
    version: int = int64()
    timestamp: int = int64()
