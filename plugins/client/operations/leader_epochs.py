"""OffsetForLeaderEpoch: where leader epochs end, by which a consumer detects a truncated log (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.plugins.client.errors import ErrorResponse, UnknownNode
from tidelog.plugins.client.operations.sending import send_request
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.steps import Session, Steps

CONSUMER: int = -1
"""Replica id of consumers."""


class EpochEnd(NamedTuple):
    """The newest epoch that is at most the requested one, and where it ends; -1 when it is unknown."""

    epoch: int
    end_offset: int


def end_of_epoch(
    session: Session, partition: TopicPartition, epoch: int, current_epoch: int
) -> Steps[EpochEnd]:
    """Return where an epoch ends in the log of the leader whose epoch is `current_epoch`; without a retry.

    Raises:
        UnsupportedByBroker: the broker keeps no epochs (before Apache Kafka 0.11).
        ErrorResponse: the leader has another epoch, or the partition cannot be read.
        ClientError: the leader is unknown, or did not answer.
    """
    leader = session.cluster.leader(partition)
    if leader is None:
        raise UnknownNode(-1)
    asked = OffsetForLeaderPartition(
        partition=partition.partition, current_leader_epoch=current_epoch, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER, topics=[OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])]
    )
    answer: OffsetForLeaderEpochResponse = yield from send_request(session, request, node=leader)
    for topic in answer.topics:
        for found in topic.partitions:
            if found.error_code:
                raise ErrorResponse(ErrorCode.of(found.error_code), str(partition))
            return EpochEnd(found.leader_epoch, found.end_offset)
    raise ErrorResponse.missing(str(partition))
