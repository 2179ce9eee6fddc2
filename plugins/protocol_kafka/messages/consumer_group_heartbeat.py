"""ConsumerGroupHeartbeat (key 68): join, stay in, and leave a group of the consumer protocol (KIP-848).

Null, and -1 for the rebalance timeout, mean that nothing changed since the member's last heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import CONSUMER_GROUP_HEARTBEAT
from tidelog.plugins.schema.declare import array, int16, int32, nested, string, struct, uuid
from tidelog.plugins.schema.types import INT32, STRING

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class ConsumerGroupHeartbeatTopicPartitions:
    """Some partitions of a topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = array(INT32)


@struct(CONSUMER_GROUP_HEARTBEAT.versions)
class ConsumerGroupHeartbeatRequest:
    """Heartbeat; `member_epoch` is 0 to join, -1 to leave, -2 for a static member that will rejoin.

    `topic_partitions` are those that the member owns.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string(versions="1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = array(
        ConsumerGroupHeartbeatTopicPartitions, nullable="0+", default=None
    )


@struct()
class ConsumerGroupHeartbeatAssignment:
    """The partitions that are assigned to a member."""

    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] = array(
        ConsumerGroupHeartbeatTopicPartitions
    )


@struct(CONSUMER_GROUP_HEARTBEAT.versions)
class ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat response; `assignment` is null when it has not changed."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatAssignment | None = nested(
        ConsumerGroupHeartbeatAssignment, nullable="0+", default=None
    )
