"""DeleteRecords: the beginning of partitions' logs is raised."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.metadata import LedPartitions, at_leaders
from tidelog.plugins.client.operations.sending import Outcomes, retry_each, send_request
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.plugins.client.steps import Session, Steps


def delete_records(
    session: Session, offsets: Mapping[TopicPartition, int]
) -> Steps[Outcomes[TopicPartition, int]]:
    """Delete the records of partitions below offsets, -1 for all that are committed.

    Return the offset of the first record that is left of each partition. A request that is sent again has the
    same effect, so that retriable errors are always retried.

    Raises:
        ClientError: no broker answered.
    """
    return (
        yield from retry_each(
            session,
            offsets,
            lambda pending: at_leaders(session, pending, lambda led: _send(session, led, offsets)),
            lambda error: error.retriable,
        )
    )


def _send(
    session: Session, led: LedPartitions, offsets: Mapping[TopicPartition, int]
) -> Steps[Outcomes[TopicPartition, int]]:
    by_topic: defaultdict[str, list[DeleteRecordsPartition]] = defaultdict(list)
    for partition in led.partitions:
        by_topic[partition.topic].append(
            DeleteRecordsPartition(partition_index=partition.partition, offset=offsets[partition])
        )
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
        timeout_ms=int(session.settings.request_timeout_s * 1000),
    )
    answer: DeleteRecordsResponse = yield from send_request(session, request, node=led.leader)
    results = {
        TopicPartition(topic.name, part.partition_index): part
        for topic in answer.topics
        for part in topic.partitions
    }
    return {partition: _outcome(partition, results.get(partition)) for partition in led.partitions}


def _outcome(partition: TopicPartition, result: DeleteRecordsPartitionResult | None) -> int | ErrorResponse:
    if result is None:
        return ErrorResponse.missing(str(partition))
    if result.error_code:
        return ErrorResponse(ErrorCode.of(result.error_code), str(partition))
    return result.low_watermark
