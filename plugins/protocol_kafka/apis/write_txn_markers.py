"""WriteTxnMarkers (API 27): end transactions in partitions, for tools that abort hanging ones."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.seams.coordination.transactions import EndOfTransaction, ProducerIdentity
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Handle each partition independently; as in Apache Kafka one result for each producer and partition."""
    pace = Pace()
    results: dict[int, dict[str, dict[int, int]]] = {}
    for marker in request.markers:
        end = EndOfTransaction(
            ProducerIdentity(marker.producer_id, marker.producer_epoch),
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        by_topic = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            codes = by_topic.setdefault(topic.name, {})
            for index in dict.fromkeys(topic.partition_indexes):
                codes[index] = await _mark(context, TopicPartition(topic.name, index), end)
                await pace.turn()
            await pace.turn()
        await pace.turn()
    markers: list[WritableTxnMarkerResult] = []
    for producer_id, by_topic in results.items():
        topics: list[WritableTxnMarkerTopicResult] = []
        for name, codes in by_topic.items():
            partitions = await run_in_steps(each_in_steps(codes.items(), _result))
            topics.append(WritableTxnMarkerTopicResult(name=name, partitions=partitions))
            await pace.turn()
        markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=topics))
        await pace.turn()
    return WriteTxnMarkersResponse(markers=markers)


def _result(outcome: tuple[int, int]) -> WritableTxnMarkerPartitionResult:
    index, code = outcome
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)


async def _mark(context: RequestContext, place: TopicPartition, end: EndOfTransaction) -> int:
    try:
        await context.broker.coordinator.transactions.write_marker(place, end)
    except BrokerError as error:
        context.warn(f"no marker in {place} for", error)
        return error_code(error)
    return 0
