"""OffsetCommit and OffsetFetch: the committed offsets of a group, with membership or without."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import CoordinatorKey
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.coordinators import (
    ask_coordinator,
    ask_coordinator_once,
    forget_if_moved,
)
from tidelog.plugins.client.operations.sending import Outcomes, retry_each
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tidelog.plugins.client.steps import Session, Steps

T = TypeVar("T")

LAST_VERSION_BY_NAME: Final = 9
"""Last version of OffsetCommit and OffsetFetch that identifies topics by name. With an id a group's offsets
of a topic that is gone could not be named."""
MANY_GROUPS_SINCE: Final = 8
REQUIRE_STABLE_SINCE: Final = 7
MEMBERS_FETCH_SINCE: Final = 9
NO_OFFSET: Final = -1


@attrs.frozen
class GroupMetadata:
    """Group as a member of it commits offsets; `generation` is a member epoch in groups of KIP-848.

    With the defaults offsets are committed without membership.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@attrs.frozen
class GroupOffset:
    """Committed offset of a group: the next offset to read, -1 for none.

    `metadata` is any text of the committer, `leader_epoch` that of the last record read, -1 when unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def commit_offsets(
    session: Session,
    group: str | GroupMetadata,
    offsets: Mapping[TopicPartition, GroupOffset],
    *,
    is_retried: bool = True,
) -> Steps[Outcomes[TopicPartition, None]]:
    """Commit offsets of a group, by a member or without; return each partition's outcome, None for success.

    A commit that is sent again has the same effect unless another one was made meanwhile: who does not wait
    for the outcome does without (`is_retried`).
    """
    member = GroupMetadata(group) if isinstance(group, str) else group
    key = CoordinatorKey.group(member.group_id)

    def attempt(pending: list[TopicPartition]) -> Steps[Outcomes[TopicPartition, None]]:
        if not pending:
            return {}
        request = _commit_request(member, {partition: offsets[partition] for partition in pending})
        try:
            answer: OffsetCommitResponse = yield from ask_coordinator_once(
                session, key, request, at_most=LAST_VERSION_BY_NAME
            )
        except ClientError as error:
            return dict.fromkeys(pending, error)
        outcomes = _commit_outcomes(pending, answer)
        for outcome in outcomes.values():
            if isinstance(outcome, ClientError):
                forget_if_moved(session, key, outcome)
        return outcomes

    return (yield from retry_each(session, offsets, attempt, lambda error: is_retried and error.retriable))


def committed_offsets(
    session: Session, group: str | GroupMetadata, partitions: Iterable[TopicPartition] | None = None
) -> Steps[dict[TopicPartition, GroupOffset]]:
    """Return the committed offset of each partition, -1 for none; by default of all that have one.

    A member of the consumer protocol names itself (KIP-848): it is refused when its epoch is an older one. An
    offset with a pending commit of a transaction is waited for, by the retry policy (KIP-447; brokers
    before Apache Kafka 2.5 return the offset before that transaction).

    Raises:
        ErrorResponse: the offset of a partition cannot be read.
        ClientError: no coordinator answered.
    """
    wanted = None if partitions is None else list(partitions)
    member = GroupMetadata(group) if isinstance(group, str) else group
    request = ByVersion(OFFSET_FETCH, lambda version: _fetch_request(member, wanted, version))
    answer: OffsetFetchResponse = yield from ask_coordinator(
        session,
        CoordinatorKey.group(member.group_id),
        request,
        lambda answer: _fetch_error(member.group_id, answer),
        at_most=LAST_VERSION_BY_NAME,
    )
    found = {
        TopicPartition(topic.name, part.partition_index): GroupOffset(
            part.committed_offset, part.metadata or "", part.committed_leader_epoch
        )
        for topic in _of_group(answer).topics
        for part in topic.partitions
    }
    if wanted is None:
        return found
    return {partition: found.get(partition, GroupOffset(NO_OFFSET)) for partition in wanted}


def _commit_request(
    member: GroupMetadata, offsets: Mapping[TopicPartition, GroupOffset]
) -> OffsetCommitRequest:
    by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for partition, offset in offsets.items():
        by_topic[partition.topic].append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    topics = [OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=topics,
    )


def _commit_outcomes(
    partitions: Iterable[TopicPartition], answer: OffsetCommitResponse
) -> Outcomes[TopicPartition, None]:
    codes = {
        TopicPartition(topic.name, part.partition_index): ErrorCode.of(part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    }
    outcomes: Outcomes[TopicPartition, None] = {}
    for partition in partitions:
        code = codes.get(partition)
        if code is None:
            outcomes[partition] = ErrorResponse.missing(str(partition))
        else:
            outcomes[partition] = ErrorResponse(code, str(partition)) if code else None
    return outcomes


def _fetch_request(
    member: GroupMetadata, partitions: Sequence[TopicPartition] | None, version: int
) -> OffsetFetchRequest:
    if version >= MANY_GROUPS_SINCE:
        topics = None if partitions is None else _named(OffsetFetchRequestTopics, partitions)
        wanted = OffsetFetchRequestGroup(group_id=member.group_id, topics=topics)
        if version >= MEMBERS_FETCH_SINCE and member.member_id:
            wanted.member_id, wanted.member_epoch = member.member_id, member.generation
        return OffsetFetchRequest(groups=[wanted], require_stable=True)
    return OffsetFetchRequest(
        group_id=member.group_id,
        topics=None if partitions is None else _named(OffsetFetchRequestTopic, partitions),
        require_stable=version >= REQUIRE_STABLE_SINCE,
    )


def _named(topic_class: Callable[..., T], partitions: Iterable[TopicPartition]) -> list[T]:
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        indexes[partition.topic].append(partition.partition)
    return [topic_class(name=name, partition_indexes=each) for name, each in indexes.items()]


def _of_group(answer: OffsetFetchResponse) -> OffsetFetchResponseGroup | OffsetFetchResponse:
    return answer.groups[0] if answer.groups else answer


def _fetch_error(group: str, answer: OffsetFetchResponse) -> ErrorResponse | None:
    """Return the error of the group, else the first one of a partition."""
    found = _of_group(answer)
    if found.error_code:
        return ErrorResponse(ErrorCode.of(found.error_code), f"group {group!r}")
    for topic in found.topics:
        for part in topic.partitions:
            if part.error_code:
                partition = TopicPartition(topic.name, part.partition_index)
                return ErrorResponse(ErrorCode.of(part.error_code), f"group {group!r}, {partition}")
    return None
