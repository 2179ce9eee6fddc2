"""DescribeProducers (API 61): who writes to a partition, and which transactions are open there."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, UnknownTopicOrPartition
from tidelog.kernel.partition import Partition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Each partition by itself."""
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[_describe(context, topic.name, index) for index in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _describe(context: RequestContext, name: str, index: int) -> PartitionResponse:
    try:
        topic = context.broker.topics.get(name)
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartition(f"topic {name!r} has no partition {index}")
    except BrokerError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error_code(error),
            error_message=context.error_message(error),
            active_producers=[],
        )
    return PartitionResponse(
        partition_index=index, error_code=0, active_producers=_producers(topic.partitions[index])
    )


def _producers(partition: Partition) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for producer_id, entry in partition.producers.entries.items()
    ]
