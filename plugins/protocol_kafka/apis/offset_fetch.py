"""OffsetFetch (API 9): fetch the committed offsets of groups."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import attrs

from tidelog.kernel.errors import BrokerError, UnknownTopicId, UnknownTopicOrPartition
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.coordination.offsets import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    CommittedOffset,
    FetchedOffsets,
    OffsetFetch,
)
from tidelog.plugins.protocol_kafka.apis.slices import merge, slices
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tidelog.plugins.schema import ZERO_UUID

MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
GROUP_ERRORS_SINCE = 2
NO_METADATA = ""

T = TypeVar("T")
R = TypeVar("R")


class Known(NamedTuple):
    """Committed offset of one partition."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = NO_METADATA
    error: int = 0


@attrs.frozen
class FetchedTopic:
    """Committed offsets of one topic, by name in old versions and by id in new ones."""

    name: str
    topic_id: bytes
    partitions: list[Known]


@in_steps
def handle(
    context: RequestContext, request: OffsetFetchRequest
) -> Generator[None, None, OffsetFetchResponse]:
    """Return committed offsets, in steps: of one group, or from version 8 on of several.

    A repeated group, topic or partition has one result: four bytes of request can be kilobytes of metadata.
    """
    if context.api_version < MANY_GROUPS_SINCE:
        return (yield from _one_group(context, request))
    groups: list[OffsetFetchResponseGroup] = []
    each_once: dict[str, OffsetFetchRequestGroup] = {}
    for group in request.groups:
        each_once.setdefault(group.group_id, group)
    for group in each_once.values():
        groups.append((yield from _group(context, group, request.require_stable)))
    return OffsetFetchResponse(groups=groups)


def _group(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Generator[None, None, OffsetFetchResponseGroup]:
    try:
        topics = yield from _known_topics(context, group, require_stable)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error_code(error))
    answered: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        partitions = yield from each_in_steps(
            topic.partitions, partial(_partition, OffsetFetchResponsePartitions)
        )
        answered.append(
            OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=answered)


def _one_group(
    context: RequestContext, request: OffsetFetchRequest
) -> Generator[None, None, OffsetFetchResponse]:
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    if request.topics is not None:
        group.topics = yield from each_in_steps(request.topics, _topic_of_group)
    try:
        topics = yield from _known_topics(context, group, request.require_stable)
    except BrokerError as error:
        code = error_code(error)
        if context.api_version >= GROUP_ERRORS_SINCE:
            return OffsetFetchResponse(error_code=code)
        topics = yield from each_in_steps(group.topics or (), lambda topic: _all_failed(topic, code))
    answered: list[OffsetFetchResponseTopic] = []
    for topic in topics:
        partitions = yield from each_in_steps(
            topic.partitions, partial(_partition, OffsetFetchResponsePartition)
        )
        answered.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(topics=answered)


def _topic_of_group(topic: OffsetFetchRequestTopic) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)


def _partition(kind: Callable[..., R], known: Known) -> R:
    """Return the result for a partition as a version of the response has it."""
    return kind(
        partition_index=known.partition,
        committed_offset=known.offset,
        committed_leader_epoch=known.leader_epoch,
        metadata=known.metadata,
        error_code=known.error,
    )


def _known_topics(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Generator[None, None, list[FetchedTopic]]:
    if group.topics is None:
        offsets = context.broker.coordinator.offsets
        fetched = yield from offsets.fetch_in_steps(_asked(group, None, require_stable))
        return (yield from _everything(context, fetched))
    each_once: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in group.topics:
        each_once.setdefault((topic.name, topic.topic_id), {}).update(dict.fromkeys(topic.partition_indexes))
        yield
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[*indexes])
        for (name, topic_id), indexes in each_once.items()
    ]
    known: dict[int, FetchedTopic] = {}
    if not topics:
        # For its checks alone: the group's errors come without any topic, too.
        _some_known_topics(context, group, require_stable)
    for some in slices(topics, "partition_indexes"):
        part = copy.copy(group)
        part.topics = some.topics
        merge(known, some.places, _some_known_topics(context, part, require_stable), "partitions")
        yield
    return [*known.values()]


def _some_known_topics(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> list[FetchedTopic]:
    topics = group.topics or ()
    names = [_name(context, topic) for topic in topics]
    asked: dict[str, list[int]] = {}
    for topic, name in zip(topics, names, strict=True):
        if name is not None:
            asked.setdefault(name, []).extend(topic.partition_indexes)
    fetched = context.broker.coordinator.offsets.fetch(_asked(group, asked, require_stable))
    unknown_topic = error_code(UnknownTopicId(""))
    return [
        _all_failed(topic, unknown_topic)
        if name is None
        else _known_topic(context, topic, fetched.get(name, {}))
        for topic, name in zip(topics, names, strict=True)
    ]


def _asked(
    group: OffsetFetchRequestGroup, topics: dict[str, list[int]] | None, require_stable: bool
) -> OffsetFetch:
    return OffsetFetch(group.group_id, topics, require_stable, group.member_id, group.member_epoch)


def _name(context: RequestContext, topic: OffsetFetchRequestTopics) -> str | None:
    """Return the name of a requested topic; None for an unknown id."""
    if context.api_version < TOPIC_IDS_SINCE:
        return topic.name
    found = context.broker.topics.find_by_id(topic.topic_id)
    return found.name if found else None


def _known_topic(
    context: RequestContext,
    topic: OffsetFetchRequestTopics,
    found: Mapping[int, CommittedOffset | BrokerError | None],
) -> FetchedTopic:
    asked_id = topic.topic_id if context.api_version >= TOPIC_IDS_SINCE else None
    nothing = error_code(UnknownTopicOrPartition("")) if context.api_version == 0 else 0
    known = [_known(index, found.get(index), asked_id, nothing) for index in topic.partition_indexes]
    return FetchedTopic(topic.name, topic.topic_id, known)


def _known(
    index: int, found: CommittedOffset | BrokerError | None, asked_id: bytes | None, nothing: int
) -> Known:
    """Return the result for one partition; a commit for a deleted topic of the same name is ignored."""
    if isinstance(found, BrokerError):
        return Known(index, error=error_code(found))
    if found is None or (asked_id and found.topic_id and found.topic_id != asked_id):
        return Known(index, error=nothing)
    return Known(index, found.offset, found.leader_epoch, found.metadata)


def _everything(
    context: RequestContext, fetched: FetchedOffsets
) -> Generator[None, None, list[FetchedTopic]]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    known: list[FetchedTopic] = []
    for name, partitions in fetched.items():
        topic = context.broker.topics.find(name) if by_id else None
        if by_id and topic is None:
            continue
        topic_id = topic.topic_id.bytes if topic else None
        found = yield from each_in_steps(partitions.items(), partial(_known_of, topic_id))
        known.append(FetchedTopic(name, topic_id or ZERO_UUID, found))
    return known


def _known_of(asked_id: bytes | None, item: tuple[int, CommittedOffset | BrokerError | None]) -> Known:
    index, found = item
    return _known(index, found, asked_id, 0)


def _all_failed(topic: OffsetFetchRequestTopics, code: int) -> FetchedTopic:
    return FetchedTopic(
        topic.name, topic.topic_id, [Known(index, error=code) for index in topic.partition_indexes]
    )
