"""WriteTxnMarkers (API 27): end transactions in partitions, as tools ask for that repair what hangs."""

from __future__ import annotations

from tidelog.kernel.coordination.transactions import EndOfTransaction, ProducerIdentity
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.storage import TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Each partition by itself."""
    results = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[await _mark_topic(context, marker, topic) for topic in marker.topics],
        )
        for marker in request.markers
    ]
    return WriteTxnMarkersResponse(markers=results)


async def _mark_topic(
    context: RequestContext, marker: WritableTxnMarker, topic: WritableTxnMarkerTopic
) -> WritableTxnMarkerTopicResult:
    end = EndOfTransaction(
        ProducerIdentity(marker.producer_id, marker.producer_epoch),
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    partitions = [
        WritableTxnMarkerPartitionResult(
            partition_index=index, error_code=await _mark(context, TopicPartition(topic.name, index), end)
        )
        for index in topic.partition_indexes
    ]
    return WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions)


async def _mark(context: RequestContext, place: TopicPartition, end: EndOfTransaction) -> int:
    try:
        await context.broker.coordinator.transactions.write_marker(place, end)
    except BrokerError as error:
        context.warn(f"no marker in {place} for", error)
        return error_code(error)
    return 0
