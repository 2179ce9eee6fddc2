"""AlterPartitionReassignments (API 45): accept only this broker as the replica of a partition.

Tools that move partitions between log directories send this first, with the present replicas.
"""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import BrokerError, InvalidReplicaAssignment, UnknownTopicOrPartition
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


@in_steps
def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Generator[None, None, AlterPartitionReassignmentsResponse]:
    """Check each partition independently, in steps."""
    answers: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        partitions: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            partitions.append(_answer(context, topic.name, asked))
            yield
        answers.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        # Apache Kafka leaves the text as it is in a new answer.
        error_message="",
        responses=answers,
    )


def _answer(
    context: RequestContext, name: str, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    index = asked.partition_index
    try:
        _check(context, name, asked)
    except BrokerError as error:
        return ReassignablePartitionResponse(
            partition_index=index, error_code=error_code(error), error_message=context.error_message(error)
        )
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS if asked.replicas is None else 0
    return ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=None)


def _check(context: RequestContext, name: str, asked: ReassignablePartition) -> None:
    topic = context.broker.topics.get(name)
    if not 0 <= asked.partition_index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"topic {name!r} has no partition {asked.partition_index}")
    here = [context.broker.cluster.node_id]
    if asked.replicas is not None and asked.replicas != here:
        raise InvalidReplicaAssignment(f"{asked.replicas} is not possible: there is one broker, {here[0]}")
