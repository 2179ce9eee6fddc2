"""ElectLeaders (key 43): elect the leaders of partitions (KIP-183, KIP-460)."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import ELECT_LEADERS
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct
from tidelog.plugins.schema.types import INT32

PREFERRED: Final = 0
UNCLEAN: Final = 1


@struct()
class ElectLeadersTopicPartitions:
    """Partitions of a topic."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@struct(ELECT_LEADERS.versions)
class ElectLeadersRequest:
    """Request an election for some partitions, or with None for all; version 0 knows `PREFERRED` only."""

    election_type: int = int8(versions="1+", default=PREFERRED)
    topic_partitions: list[ElectLeadersTopicPartitions] | None = array(
        ElectLeadersTopicPartitions, nullable="0+"
    )
    timeout_ms: int = int32(default=60000)


@struct()
class PartitionResult:
    """Result of one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct()
class ReplicaElectionResult:
    """Results of a topic."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@struct(ELECT_LEADERS.versions)
class ElectLeadersResponse:
    """ElectLeaders response; when all partitions were requested, those that had their leader are left out."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
