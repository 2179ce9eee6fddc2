"""Metadata records of topics and partitions.

Source: the schemas of Apache Kafka 4.4's metadata records; version 1 of the partition records is KIP-858,
version 2 is KIP-966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    int8,
    int32,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERY_STATE_UNCHANGED = -1


@struct(VersionSpan(0, 0, flexible=0))
class TopicRecord:
    """A topic was created."""

    name: str = string()
    topic_id: Uuid = uuid()


@struct(VersionSpan(0, 0, flexible=0))
class RemoveTopicRecord:
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: Uuid = uuid()


@struct(VersionSpan(0, 2, flexible=0))
class PartitionRecord:
    """The whole state of a partition; `directories` are the log directories of `replicas`, by id."""

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    replicas: list[int] = array(INT32)
    isr: list[int] = array(INT32)
    removing_replicas: list[int] = array(INT32, factory=list)
    adding_replicas: list[int] = array(INT32, factory=list)
    leader: int = int32(default=NO_LEADER)
    leader_recovery_state: int = int8(tag=0, default=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[Uuid] = array(UUID, versions="1+", factory=list, ignorable=True)
    eligible_leader_replicas: list[int] | None = array(
        INT32, versions="2+", nullable="2+", tag=1, default=None, ignorable=True
    )
    last_known_elr: list[int] | None = array(
        INT32, versions="2+", nullable="2+", tag=2, default=None, ignorable=True
    )


@struct(VersionSpan(0, 2, flexible=0))
class PartitionChangeRecord:
    """Change of a partition; fields with their default keep their value."""

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    isr: list[int] | None = array(INT32, nullable="0+", tag=0, default=None)
    leader: int = int32(tag=1, default=LEADER_UNCHANGED)
    replicas: list[int] | None = array(INT32, nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array(INT32, nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array(INT32, nullable="0+", tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=RECOVERY_STATE_UNCHANGED)
    eligible_leader_replicas: list[int] | None = array(
        INT32, versions="2+", nullable="2+", tag=6, default=None, ignorable=True
    )
    last_known_elr: list[int] | None = array(
        INT32, versions="2+", nullable="2+", tag=7, default=None, ignorable=True
    )
    directories: list[Uuid] | None = array(
        UUID, versions="1+", nullable="1+", tag=8, default=None, ignorable=True
    )


@struct(VersionSpan(0, 0, flexible=0))
class ClearElrRecord:
    """Clear the eligible leader replicas of a topic, or of all if the name is empty."""

    topic_name: str = string()
