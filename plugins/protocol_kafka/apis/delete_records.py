"""DeleteRecords (API 21): raise the log start offsets of partitions."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from tidelog.kernel.config.keys import CLEANUP_POLICY
from tidelog.kernel.errors import BrokerError, InvalidTopic, PolicyViolation
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_OFFSET = -1
_COMPACT_ONLY: Final = frozenset(("compact",))


@in_steps
def handle(
    context: RequestContext, request: DeleteRecordsRequest
) -> Generator[None, None, DeleteRecordsResponse]:
    """Raise the log start offset of each partition, in steps; an error of one does not affect the others.

    As in Apache Kafka the last offset is used for a partition that is repeated.
    """
    asked: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for partition in topic.partitions:
            partitions[partition.partition_index] = partition
            yield
        yield
    answers: list[DeleteRecordsTopicResult] = []
    for name, partitions in asked.items():
        results: list[DeleteRecordsPartitionResult] = []
        for partition in partitions.values():
            results.append(_delete(context, name, partition))
            yield
        answers.append(DeleteRecordsTopicResult(name=name, partitions=results))
        yield
    return DeleteRecordsResponse(topics=answers)


def _delete(
    context: RequestContext, name: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    index = asked.partition_index
    try:
        low_watermark = _low_watermark(context, name, asked)
    except BrokerError as error:
        context.warn(f"refusing to delete records of {name}-{index} for", error)
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_OFFSET, error_code=error_code(error)
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=0)


def _low_watermark(context: RequestContext, name: str, asked: DeleteRecordsPartition) -> int:
    """Raise the log start offset; return the log start offset afterwards."""
    topic = context.broker.topics.get(name)
    if topic.is_internal:
        raise InvalidTopic(
            f"the broker keeps its own state in {name}; its records are not deleted by request"
        )
    log = context.broker.replicas.log_of(name, asked.partition_index)
    if _COMPACT_ONLY.issuperset(topic.config[CLEANUP_POLICY]):
        # A topic that keeps the last value of each key has to keep those that are never replaced.
        raise PolicyViolation(
            f"records of {name}-{asked.partition_index} cannot be deleted: its cleanup.policy is not delete"
        )
    offset = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    log.delete_records_before(offset)
    return log.log_start_offset
