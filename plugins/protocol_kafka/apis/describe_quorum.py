"""DescribeQuorum (API 55): the metadata log, which one node leads, votes for and keeps."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import UnknownTopicOrPartition
from tidelog.kernel.seams.metadata import MetadataQuorum
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_quorum import (
    DescribedTopic,
    DescribeQuorumReplica,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumNode,
    QuorumPartition,
    QuorumTopic,
)
from tidelog.plugins.schema import ZERO_UUID

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0
DIRECTORIES_SINCE = 2


@in_steps
def handle(
    context: RequestContext, request: DescribeQuorumRequest
) -> Generator[None, None, DescribeQuorumResponse]:
    """Describe the metadata log; as in Kafka it has to be the only partition of the request.

    The nodes have no addresses: this broker has no listener for controllers.
    """
    quorum = context.broker.cluster.quorum
    if quorum is None or not _is_metadata_log(request.topics):
        topics = yield from _unknown(context, request)
        return DescribeQuorumResponse(error_code=0, error_message="", topics=topics)
    topic = QuorumTopic(topic_name=METADATA_TOPIC, partitions=[_partition(context, quorum)])
    return DescribeQuorumResponse(
        error_code=0,
        error_message="",
        topics=[topic],
        nodes=_nodes(context, quorum),
    )


def _nodes(context: RequestContext, quorum: MetadataQuorum) -> list[QuorumNode]:
    if context.api_version < DIRECTORIES_SINCE:
        return []
    return [QuorumNode(node_id=voter.node_id, listeners=[]) for voter in quorum.voters]


def _is_metadata_log(topics: list[DescribedTopic]) -> bool:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return False
    (topic,) = topics
    return (topic.topic_name, topic.partitions[0].partition_index) == (METADATA_TOPIC, METADATA_PARTITION)


def _partition(context: RequestContext, quorum: MetadataQuorum) -> QuorumPartition:
    """Describe the leader's log; the times of a leader are the current one, as in Kafka."""
    now_ms = context.broker.clock()
    has_directories = context.api_version >= DIRECTORIES_SINCE
    return QuorumPartition(
        partition_index=METADATA_PARTITION,
        error_code=0,
        error_message="",
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[
            DescribeQuorumReplica(
                replica_id=voter.node_id,
                replica_directory_id=voter.directory_id if has_directories else ZERO_UUID,
                log_end_offset=quorum.log_end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in quorum.voters
        ],
        observers=[],
    )


def _unknown(
    context: RequestContext, request: DescribeQuorumRequest
) -> Generator[None, None, list[QuorumTopic]]:
    error = UnknownTopicOrPartition("this broker has no such partition of a metadata log")
    code, text = error_code(error), context.error_message(error)
    topics: list[QuorumTopic] = []
    for topic in request.topics:
        partitions: list[QuorumPartition] = []
        for asked in topic.partitions:
            partitions.append(
                QuorumPartition(
                    partition_index=asked.partition_index,
                    error_code=code,
                    error_message=text,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=[],
                    observers=[],
                )
            )
            yield
        topics.append(QuorumTopic(topic_name=topic.topic_name, partitions=partitions))
        yield
    return topics
