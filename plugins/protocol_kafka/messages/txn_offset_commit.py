"""TxnOffsetCommit (key 28): commit offsets of a group in the producer's transaction.

Version 3 has the consumer's membership (KIP-447), version 5 adds the group's offsets to the transaction
(KIP-890), version 6 identifies topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import TXN_OFFSET_COMMIT
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct, uuid
from tidelog.plugins.schema.types import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class TxnOffsetCommitRequestPartition:
    """The next offset to read in one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct()
class TxnOffsetCommitRequestTopic:
    """Offsets in one topic."""

    name: str = string(versions="0-5", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@struct(TXN_OFFSET_COMMIT.versions)
class TxnOffsetCommitRequest:
    """Commit offsets as part of a transaction.

    `generation_id` is a member epoch in groups of the consumer protocol; -1 and no member: no group.
    """

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(versions="3+", default=-1)
    member_id: str = string(versions="3+", default="")
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@struct()
class TxnOffsetCommitResponsePartition:
    """Result for one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct()
class TxnOffsetCommitResponseTopic:
    """Result for one topic's offsets."""

    name: str = string(versions="0-5", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@struct(TXN_OFFSET_COMMIT.versions)
class TxnOffsetCommitResponse:
    """TxnOffsetCommit response."""

    throttle_time_ms: int = int32(default=0)
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
