"""CreatePartitions (API 37): add partitions to topics, or only validate the request."""

from __future__ import annotations

from collections import Counter

import trio

from tidelog.kernel.errors import BrokerError, InvalidReplicaAssignment, InvalidRequest, PolicyViolation
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Most partitions that one request creates."""


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Handle each topic independently: an error of one does not affect the others."""
    times = Counter(topic.name for topic in request.topics)
    first = {topic.name: topic for topic in reversed(request.topics)}
    left = MAX_PARTITIONS_PER_REQUEST
    pace = Pace()
    wanted = 0
    for name in times:
        wanted += _wanted(context, first[name]) if times[name] == 1 else 0
        await pace.turn()
    results: list[CreatePartitionsTopicResult] = []
    for name in times:
        refusal: BrokerError | None = None
        try:
            if times[name] > 1:
                raise InvalidRequest(f"topic {name!r} is in the request {times[name]} times")
            left -= await _grow(context, first[name], left, wanted, validate_only=request.validate_only)
        except BrokerError as error:
            context.warn(f"refusing to add partitions to topic {name!r} for", error)
            refusal = error
        results.append(_result(context, name, refusal))
        await pace.turn()
    return CreatePartitionsResponse(results=results)


def _result(context: RequestContext, name: str, refusal: BrokerError | None) -> CreatePartitionsTopicResult:
    if refusal is None:
        return CreatePartitionsTopicResult(name=name, error_code=0)
    return CreatePartitionsTopicResult(
        name=name, error_code=error_code(refusal), error_message=context.error_message(refusal)
    )


def _wanted(context: RequestContext, asked: CreatePartitionsTopic) -> int:
    """Return the number of requested partitions; 0 for a topic that is refused anyway."""
    try:
        return asked.count - len(context.broker.topics.check_growth(asked.name, asked.count).partitions)
    except BrokerError:
        return 0


async def _grow(
    context: RequestContext, asked: CreatePartitionsTopic, left: int, wanted: int, *, validate_only: bool
) -> int:
    """Add partitions to one topic; return how many. The request asks for `wanted`, may add `left` more."""
    topics = context.broker.topics
    added = asked.count - len(topics.check_growth(asked.name, asked.count).partitions)
    if added > left:
        raise PolicyViolation(
            f"a request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most, and this one asks for "
            f"{wanted}; create them with several requests"
        )
    _check_assignments(context, asked, added)
    if validate_only:
        await trio.lowlevel.checkpoint()
    else:
        await topics.grow(asked.name, asked.count)
    return added


def _check_assignments(context: RequestContext, asked: CreatePartitionsTopic, added: int) -> None:
    """Check that each new partition is assigned to this broker."""
    if asked.assignments is None:
        return
    if len(asked.assignments) != added:
        raise InvalidReplicaAssignment(
            f"{added} partition(s) are to be added, {len(asked.assignments)} are assigned"
        )
    node_id = context.broker.cluster.node_id
    for assignment in asked.assignments:
        if assignment.broker_ids != [node_id]:
            raise InvalidReplicaAssignment(
                f"a partition is assigned to brokers {assignment.broker_ids}, the only broker is {node_id}"
            )
