"""OffsetDelete (API 47): a group forgets how far it has read in some partitions."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete; the tombstones are in the log when this returns."""
    partitions = [
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    try:
        outcome = context.broker.coordinator.offsets.delete(request.group_id, partitions)
        if outcome.wait is not None:
            await outcome.wait()
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error_code(error))
    return _answer(request, iter(outcome.errors))


def _answer(request: OffsetDeleteRequest, errors: Iterator[BrokerError | None]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=0,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error_code(error) if (error := next(errors)) else 0,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
