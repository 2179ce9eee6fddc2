"""ElectLeaders (API 43): each partition has one replica, which leads it as long as its disk works."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from tidelog.kernel.errors import (
    BrokerError,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from tidelog.plugins.protocol_kafka.apis.common_fields import is_offline
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
    PartitionResult,
    ReplicaElectionResult,
)

_NOT_AVAILABLE: Mapping[int, type[BrokerError]] = {
    PREFERRED: PreferredLeaderNotAvailable,
    UNCLEAN: EligibleLeadersNotAvailable,
}


@in_steps
def handle(
    context: RequestContext, request: ElectLeadersRequest
) -> Generator[None, None, ElectLeadersResponse]:
    """Return the result of each partition, in steps; of all partitions only those without a leader."""
    asked_all = request.topic_partitions is None
    results: list[ReplicaElectionResult] = []
    for topic in _every_partition(context) if request.topic_partitions is None else request.topic_partitions:
        partitions: list[PartitionResult] = []
        for index in topic.partitions:
            error = _outcome(context, request.election_type, topic.topic, index)
            if not (asked_all and isinstance(error, ElectionNotNeeded)):
                partitions.append(_result(context, index, error))
            yield
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=partitions))
        yield
    if request.election_type in _NOT_AVAILABLE:
        return ElectLeadersResponse(replica_election_results=results)
    code = error_code(_unknown_type(request.election_type))
    return ElectLeadersResponse(error_code=code, replica_election_results=[] if asked_all else results)


def _every_partition(context: RequestContext) -> Iterator[ElectLeadersTopicPartitions]:
    # Over a copy, see `Topics`: topics may come and go between the steps.
    for topic in context.broker.topics:
        yield ElectLeadersTopicPartitions(topic=topic.name, partitions=list(range(len(topic.partitions))))


def _outcome(context: RequestContext, election_type: int, name: str, index: int) -> BrokerError:
    """Return why no other leader is elected: there is no other replica."""
    if election_type not in _NOT_AVAILABLE:
        return _unknown_type(election_type)
    topic = context.broker.topics.find(name)
    if topic is None:
        return UnknownTopicOrPartition(f"topic {name!r} does not exist")
    if not 0 <= index < len(topic.partitions):
        return UnknownTopicOrPartition(f"topic {name!r} has no partition {index}")
    if is_offline(topic, index):
        return _NOT_AVAILABLE[election_type](
            f"the only replica of {name}-{index} is in a log directory that failed; a restart of the broker "
            "tries it again"
        )
    return ElectionNotNeeded(f"{name}-{index} has its leader")


def _unknown_type(election_type: int) -> InvalidRequest:
    return InvalidRequest(f"there is no election type {election_type}")


def _result(context: RequestContext, index: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(
        partition_id=index, error_code=error_code(error), error_message=context.error_message(error)
    )
