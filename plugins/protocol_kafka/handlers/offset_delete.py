"""OffsetDelete (API 47): delete committed offsets of a group."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

DELETED_AT_ONCE = 1000
"""Most offsets that are deleted in one step; other requests are served between steps."""


async def handle(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets; their tombstones are in the log when this returns."""
    partitions = [
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    pace = Pace()
    errors: list[BrokerError | None] = []
    try:
        for start in range(0, max(len(partitions), 1), DELETED_AT_ONCE):
            some = partitions[start : start + DELETED_AT_ONCE]
            outcome = context.broker.coordinator.offsets.delete(request.group_id, some)
            if outcome.wait is not None:
                await outcome.wait()
            errors += outcome.errors
            await pace.turn()
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error_code(error))
    return _answer(request, iter(errors))


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
