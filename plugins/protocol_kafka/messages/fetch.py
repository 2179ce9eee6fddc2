"""Fetch (key 1): read record batches, for consumers and followers.

Topics go by name up to version 12, by id from 13 on (KIP-516). Versions 7 and up can continue a fetch session
(KIP-227). Below version 4 there are no record batches v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.schema.declare import (
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import RecordRegions, Uuid


@struct(frozen=True)
class FetchReplicaState:
    """The follower that sends the request (KIP-903); -1 for consumers."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@struct()
class FetchPartition:
    """Request for one partition; epochs are -1 when they are unknown."""

    partition: int = int32()
    current_leader_epoch: int = int32(versions="9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(versions="12+", default=-1)
    log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid(versions="17+", tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark: int = int64(versions="18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)


@struct()
class FetchTopic:
    """Request for one topic."""

    topic: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct()
class ForgottenTopic:
    """Partitions to remove from the fetch session."""

    topic: str = string(versions="7-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array(INT32)


@struct(FETCH.versions)
class FetchRequest:
    """Read `min_bytes` or more within `max_wait_ms`; `isolation_level` 1 hides uncommitted transactions."""

    cluster_id: str | None = string(versions="12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32(versions="0-14", default=-1)
    replica_state: FetchReplicaState = nested(
        FetchReplicaState, versions="15+", tag=1, default=FetchReplicaState()
    )
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(versions="3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8(versions="4+", default=0, ignorable=True)
    session_id: int = int32(versions="7+", default=0, ignorable=True)
    session_epoch: int = int32(versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, versions="7+", factory=list)
    rack_id: str = string(versions="11+", default="", ignorable=True)


@struct(frozen=True)
class FetchEpochEndOffset:
    """End of the newest epoch that the follower's log shares with the leader's (KIP-595)."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@struct(frozen=True)
class FetchLeaderIdAndEpoch:
    """The current leader; -1 when it is unknown."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct(frozen=True)
class FetchSnapshotId:
    """The snapshot to fetch when the offset is below the log start offset (KIP-630)."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct()
class FetchAbortedTransaction:
    """An aborted transaction that overlaps the batches of the response."""

    producer_id: int = int64()
    first_offset: int = int64()


@struct()
class PartitionData:
    """Response for one partition; `aborted_transactions` is null for the level read_uncommitted."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(versions="4+", default=-1, ignorable=True)
    log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
    diverging_epoch: FetchEpochEndOffset = nested(
        FetchEpochEndOffset, versions="12+", tag=0, default=FetchEpochEndOffset()
    )
    current_leader: FetchLeaderIdAndEpoch = nested(
        FetchLeaderIdAndEpoch, versions="12+", tag=1, default=FetchLeaderIdAndEpoch()
    )
    snapshot_id: FetchSnapshotId = nested(FetchSnapshotId, versions="12+", tag=2, default=FetchSnapshotId())
    aborted_transactions: list[FetchAbortedTransaction] | None = array(
        FetchAbortedTransaction, versions="4+", nullable="4+", default=None, ignorable=True
    )
    preferred_read_replica: int = int32(versions="11+", default=-1)
    records: bytes | memoryview | RecordRegions | None = records(nullable="0+")


@struct()
class FetchableTopicResponse:
    """Response for one topic."""

    topic: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@struct()
class FetchNodeEndpoint:
    """Address of a broker that `current_leader` names (KIP-951)."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="16+", default=None)


@struct(FETCH.versions)
class FetchResponse:
    """Fetch response; `session_id` is 0 outside of a fetch session."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16(versions="7+", default=0, ignorable=True)
    session_id: int = int32(versions="7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[FetchNodeEndpoint] = array(FetchNodeEndpoint, versions="16+", tag=0, factory=list)
