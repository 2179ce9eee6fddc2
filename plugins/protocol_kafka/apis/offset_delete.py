"""OffsetDelete (API 47): delete committed offsets of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.apis.slices import merge, slices
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets; their tombstones are in the log when this returns."""
    pace = Pace()
    answers: dict[int, OffsetDeleteResponseTopic] = {}
    offsets = context.broker.coordinator.offsets
    try:
        if not request.topics:
            offsets.delete(request.group_id, ())
        for some in slices(request.topics, "partitions"):
            named = [(topic.name, each.partition_index) for topic in some.topics for each in topic.partitions]
            outcome = offsets.delete(request.group_id, named)
            if outcome.wait is not None:
                await outcome.wait()
            merge(answers, some.places, _answers(some.topics, iter(outcome.errors)), "partitions")
            await pace.turn()
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error_code(error))
    return OffsetDeleteResponse(error_code=0, topics=[*answers.values()])


def _answers(
    topics: Sequence[OffsetDeleteRequestTopic], errors: Iterator[BrokerError | None]
) -> list[OffsetDeleteResponseTopic]:
    return [
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
        for topic in topics
    ]
