"""CreatePartitions (API 37): add partitions to topics, or only validate the request."""

from __future__ import annotations

from collections import Counter

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
"""Most partitions that one request adds; with more it is refused as a whole, as in Apache Kafka 4.4."""


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Handle each topic independently, unless the request adds too many partitions in all."""
    times = Counter(topic.name for topic in request.topics)
    first = {topic.name: topic for topic in reversed(request.topics)}
    pace = Pace()
    wanted = 0
    for name in times:
        # One that is repeated is refused below, and adds nothing.
        wanted += _wanted(context, first[name]) if times[name] == 1 else 0
        await pace.turn()
    too_many = _too_many(wanted) if wanted > MAX_PARTITIONS_PER_REQUEST else None
    outcomes: dict[str, BrokerError | None] = {}
    for name in times:
        try:
            _check(context, first[name], times[name], too_many)
            outcomes[name] = None
        except BrokerError as error:
            outcomes[name] = error
        await pace.turn()
    if not request.validate_only:
        growing = [(name, first[name].count) for name, refusal in outcomes.items() if refusal is None]
        grown = await context.broker.controller.create_partitions(growing)
        # Other requests were served since the check, so that the controller may refuse what that did not.
        outcomes |= {name: error for (name, _), error in zip(growing, grown, strict=True)}
    results: list[CreatePartitionsTopicResult] = []
    for name, outcome in outcomes.items():
        results.append(_result(context, name, outcome))
        await pace.turn()
    return CreatePartitionsResponse(results=results)


def _result(context: RequestContext, name: str, refusal: BrokerError | None) -> CreatePartitionsTopicResult:
    if refusal is None:
        return CreatePartitionsTopicResult(name=name, error_code=0)
    context.warn(f"refusing to add partitions to topic {name!r} for", refusal)
    return CreatePartitionsTopicResult(
        name=name, error_code=error_code(refusal), error_message=context.error_message(refusal)
    )


def _wanted(context: RequestContext, asked: CreatePartitionsTopic) -> int:
    """Return the number of requested partitions; 0 for a topic that is refused anyway."""
    try:
        return context.broker.controller.check_partitions(asked.name, asked.count)
    except BrokerError:
        return 0


def _too_many(wanted: int) -> PolicyViolation:
    return PolicyViolation(
        f"a request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most, and this one asks for "
        f"{wanted}; create them with several requests"
    )


def _check(
    context: RequestContext, asked: CreatePartitionsTopic, times: int, too_many: PolicyViolation | None
) -> None:
    """Check one topic of a request, which may ask for too many partitions.

    Raises:
        BrokerError: the topic is refused.
    """
    if times > 1:
        raise InvalidRequest(f"topic {asked.name!r} is in the request {times} times")
    if too_many is not None:
        raise too_many
    added = context.broker.controller.check_partitions(asked.name, asked.count)
    _check_assignments(context, asked, added)
    if context.mutations is not None:
        context.mutations.charge(added)


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
