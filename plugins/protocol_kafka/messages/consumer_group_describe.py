"""ConsumerGroupDescribe (key 69): groups of the consumer protocol, members and assignments (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.protocol_kafka.messages.api import CONSUMER_GROUP_DESCRIBE
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    int8,
    int16,
    int32,
    nested,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, STRING

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid

NO_AUTHORIZED_OPERATIONS: Final = -0x80000000
"""The bit field of authorized operations when it was not requested."""

UNKNOWN_MEMBER_TYPE: Final = -1
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


@struct(CONSUMER_GROUP_DESCRIBE.versions)
class ConsumerGroupDescribeRequest:
    """Request groups by their ids."""

    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


@struct()
class ConsumerGroupDescribeTopicPartitions:
    """Some partitions of a topic."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


@struct()
class ConsumerGroupDescribeAssignment:
    """The partitions of a member."""

    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = array(ConsumerGroupDescribeTopicPartitions)


@struct()
class ConsumerGroupDescribeMember:
    """A member; `member_type` is 0 for the classic protocol and 1 for the consumer protocol."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeAssignment = nested(ConsumerGroupDescribeAssignment)
    target_assignment: ConsumerGroupDescribeAssignment = nested(ConsumerGroupDescribeAssignment)
    member_type: int = int8(versions="1+", default=UNKNOWN_MEMBER_TYPE, ignorable=True)


@struct()
class ConsumerGroupDescribedGroup:
    """A group, or why it cannot be described."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ConsumerGroupDescribeMember] = array(ConsumerGroupDescribeMember)
    authorized_operations: int = int32(default=NO_AUTHORIZED_OPERATIONS)


@struct(CONSUMER_GROUP_DESCRIBE.versions)
class ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe response."""

    throttle_time_ms: int = int32(default=0)
    groups: list[ConsumerGroupDescribedGroup] = array(ConsumerGroupDescribedGroup)
