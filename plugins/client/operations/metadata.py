"""Metadata: brokers, topics, and the leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.sending import refresh, retrying
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.steps import Session, Steps


def metadata(
    session: Session, topics: Sequence[str] | None = None, *, create: bool = False
) -> Steps[ClusterMetadata]:
    """Return the metadata of the cluster and of some topics (None: of all), from any broker.

    Topics that do not exist are in `errors` of the result; with `create` the broker may create them instead.

    Raises:
        ClientError: no broker answered.
    """
    return (yield from retrying(session, lambda: _metadata_once(session, topics, create=create)))


def _metadata_once(session: Session, topics: Sequence[str] | None, *, create: bool) -> Steps[ClusterMetadata]:
    found = yield from refresh(session, topics, create=create)
    for name, code in found.errors.items():
        if code is ErrorCode.LEADER_NOT_AVAILABLE:  # the answer of brokers while they create a topic
            raise ErrorResponse(code, f"topic {name!r}")
    return found


def leaders_of(
    session: Session, partitions: Sequence[TopicPartition]
) -> Steps[dict[TopicPartition, int | ErrorResponse]]:
    """Return the leader's node id for each partition, or the error why there is none."""
    errors: Mapping[str, ErrorCode] = {}
    unknown = {part.topic for part in partitions if session.cluster.leader(part) is None}
    if unknown:
        errors = (yield from refresh(session, sorted(unknown))).errors
    return {part: _leader(session, part, errors) for part in partitions}


def leader_of(session: Session, partition: TopicPartition) -> Steps[int]:
    """Return the leader's node id.

    Raises:
        ErrorResponse: there is no such topic or partition, or no leader.
    """
    leader = (yield from leaders_of(session, [partition]))[partition]
    if isinstance(leader, ErrorResponse):
        raise leader
    return leader


def forget_if_stale(session: Session, topic: str, error: ClientError) -> None:
    """Drop the topic's cached metadata after an error that newer metadata may resolve."""
    if not isinstance(error, ErrorResponse) or error.code.refreshes_metadata:
        session.cluster.forget_topic(topic)


def _leader(
    session: Session, partition: TopicPartition, errors: Mapping[str, ErrorCode]
) -> int | ErrorResponse:
    leader = session.cluster.leader(partition)
    if leader is not None:
        return leader
    code = errors.get(partition.topic)
    if code is not None:
        return ErrorResponse(code, f"topic {partition.topic!r}")
    if session.cluster.has_partition(partition):
        return ErrorResponse(ErrorCode.LEADER_NOT_AVAILABLE, str(partition), "it has no leader now")
    return ErrorResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
