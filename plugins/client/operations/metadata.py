"""Metadata: brokers, topics, and the leaders of partitions."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tidelog.plugins.client.cluster import ClusterMetadata
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.sending import refresh, retrying, send_request
from tidelog.plugins.client.steps import Pause
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.cluster import TopicMetadata
    from tidelog.plugins.client.operations.sending import Outcomes
    from tidelog.plugins.client.steps import Session, Steps

T = TypeVar("T")

_LEAST_PAUSE_S: Final = 0.001


def metadata(
    session: Session, topics: Sequence[str] | None = None, *, create: bool = False
) -> Steps[ClusterMetadata]:
    """Return the metadata of the cluster and of some topics (None: of all), from any broker.

    Topics that do not exist are in `errors` of the result. With `create` brokers may create them, which takes
    a while: they are requested again until all are there, or `max_block_s` of pauses have passed.

    Raises:
        ClientError: no broker answered.
    """
    if create:
        return (yield from _metadata_of_created(session, topics))
    return (yield from retrying(session, lambda: _metadata_once(session, topics)))


def topic_names(session: Session, topic_ids: Collection[UUID]) -> Steps[dict[UUID, str]]:
    """Return the names of topics by their ids, without those that do not exist; their metadata is cached.

    Brokers know ids in this request since Metadata 12 (KIP-516).

    Raises:
        ClientError: no broker answered.
    """
    wanted = [MetadataRequestTopic(topic_id=each.bytes, name=None) for each in topic_ids]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer: MetadataResponse = yield from send_request(session, request)
    found = ClusterMetadata.from_response(answer)
    # What is not found has no name, by which nothing is dropped from the cache.
    session.cluster.update(found)
    return {topic.topic_id: name for name, topic in found.topics.items()}


def describe_cluster(session: Session) -> Steps[ClusterMetadata]:
    """Return the cluster's id, its brokers and its controller, without topics.

    Raises:
        ClientError: no broker answered.
    """
    return (yield from metadata(session, ()))


def list_topics(session: Session, *, internal: bool = False) -> Steps[list[str]]:
    """Return the names of all topics; those of the brokers' own only with `internal`.

    Raises:
        ClientError: no broker answered.
    """
    topics = (yield from metadata(session)).topics
    return sorted(name for name, topic in topics.items() if internal or not topic.is_internal)


def describe_topics(session: Session, names: Sequence[str]) -> Steps[Outcomes[str, TopicMetadata]]:
    """Return the partitions of topics with their leaders and replicas, by the topic's name.

    Raises:
        ClientError: no broker answered.
    """
    found = yield from metadata(session, names)
    outcomes: Outcomes[str, TopicMetadata] = {}
    for name in names:
        topic, code = found.topics.get(name), found.errors.get(name)
        subject = f"topic {name!r}"
        if topic is not None:
            outcomes[name] = topic
        else:
            outcomes[name] = ErrorResponse(code, subject) if code else ErrorResponse.missing(subject)
    return outcomes


def _metadata_of_created(session: Session, topics: Sequence[str] | None) -> Steps[ClusterMetadata]:
    settings, waited_s = session.settings, 0.0
    for attempt in count():
        found = yield from retrying(session, lambda: refresh(session, topics, create=True))
        missing = any(code.retriable for code in found.errors.values())
        if not missing or waited_s >= settings.max_block_s:
            return found
        pause_s = min(settings.retry.pause_s(attempt), settings.max_block_s - waited_s)
        # With retries without a pause the time would never be up.
        waited_s += max(pause_s, _LEAST_PAUSE_S)
        yield Pause(pause_s, is_extra=True)
    raise AssertionError("the attempts are without an end")


def _metadata_once(session: Session, topics: Sequence[str] | None) -> Steps[ClusterMetadata]:
    found = yield from refresh(session, topics)
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


@attrs.frozen
class LedPartitions:
    """The partitions of an operation that one broker leads.

    Attributes:
        leader: node id
        partitions: topics and partitions
        leaders: the number of brokers that lead partitions of the operation
    """

    leader: int
    partitions: list[TopicPartition]
    leaders: int


def at_leaders(
    session: Session,
    partitions: Sequence[TopicPartition],
    send: Callable[[LedPartitions], Steps[Outcomes[TopicPartition, T]]],
) -> Steps[Outcomes[TopicPartition, T]]:
    """Call `send` with the partitions of each leader, one leader after the other.

    Return the outcomes of all partitions. An error that `send` raises is the outcome of each partition that
    it was called with, an error while leaders are looked up that of all; cached metadata that an error makes
    doubtful is dropped.
    """
    outcomes: Outcomes[TopicPartition, T] = {}
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    try:
        leaders = yield from leaders_of(session, partitions)
    except ClientError as error:
        return dict.fromkeys(partitions, error)
    for partition, leader in leaders.items():
        if isinstance(leader, ErrorResponse):
            outcomes[partition] = leader
        else:
            by_leader[leader].append(partition)
    for leader, led in by_leader.items():
        try:
            outcomes |= yield from send(LedPartitions(leader, led, len(by_leader)))
        except ClientError as error:
            outcomes |= dict.fromkeys(led, error)
    for partition, outcome in outcomes.items():
        if isinstance(outcome, ClientError):
            forget_if_stale(session, partition.topic, outcome)
    return outcomes


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
