"""DescribeTopicPartitions (API 75): topics in the order of their names, page by page (KIP-966)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition
from tidelog.kernel.seams.features import DISABLED, ELR_VERSION
from tidelog.kernel.topic_names import INTERNAL_TOPICS, check_topic_name
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.apis.common_fields import (
    TOPIC_OPERATIONS,
    describe_partition,
    is_offline,
)
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic


PARTITIONS_PER_STEP = 8


@in_steps
def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Describe partitions from the cursor on, in steps, up to the limit of request and broker.

    As in Kafka a page has one partition at least, and an invalid cursor is reported for each topic.
    """
    try:
        _check(request)
    except InvalidRequest as error:
        refused = yield from _all_refused(request, error)
        return DescribeTopicPartitionsResponse(topics=refused)
    most = context.broker.config[keys.MAX_REQUEST_PARTITION_SIZE_LIMIT]
    left = max(min(request.response_partition_limit, most), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in _names(context, request):
        if not left:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        topic = context.broker.topics.find(name)
        if topic is None:
            topics.append(_missing(name))
            yield
            continue
        described = _found(topic)
        topics.append(described)
        first = _first_partition(request.cursor, name)
        end = min(first + left, len(topic.partitions))
        for index in range(first, end):
            described.partitions.append(_partition(context, topic, index))
            if index % PARTITIONS_PER_STEP == 0:
                yield
        if end < len(topic.partitions):
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=end)
            )
        # The cursor may lie behind the last partition of its topic.
        left -= max(end - first, 0)
        yield
    return DescribeTopicPartitionsResponse(topics=topics)


def _check(request: DescribeTopicPartitionsRequest) -> None:
    cursor = request.cursor
    if cursor is None:
        return
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        raise InvalidRequest(f"the topic of the cursor, {cursor.topic_name!r}, is not among those requested")
    if cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor has the partition {cursor.partition_index}")


def _names(context: RequestContext, request: DescribeTopicPartitionsRequest) -> Iterable[str]:
    """Return the names of the requested topics, all of them for an empty list, from the cursor's on."""
    if request.topics:
        names = {topic.name for topic in request.topics}
    else:
        names = {topic.name for topic in context.broker.topics}
    first = "" if request.cursor is None else request.cursor.topic_name
    return sorted(name for name in names if name >= first)


def _first_partition(cursor: Cursor | None, name: str) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _partition(context: RequestContext, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    """Describe a partition; one without a leader has its only replica as the eligible one (KIP-966)."""
    has_elr = context.broker.features.level(ELR_VERSION) > DISABLED
    eligible = [context.broker.cluster.node_id] if has_elr and is_offline(topic, index) else []
    return describe_partition(
        DescribeTopicPartitionsResponsePartition,
        context,
        topic,
        index,
        eligible_leader_replicas=eligible,
        last_known_elr=[],
    )


def _found(topic: Topic) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        is_internal=topic.is_internal,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
        error: BrokerError = UnknownTopicOrPartition(f"topic {name!r} does not exist")
    except BrokerError as invalid:
        error = invalid
    missing = _refused(name, error)
    missing.is_internal = name in INTERNAL_TOPICS
    missing.topic_authorized_operations = TOPIC_OPERATIONS
    return missing


def _all_refused(
    request: DescribeTopicPartitionsRequest, error: InvalidRequest
) -> Generator[None, None, list[DescribeTopicPartitionsResponseTopic]]:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for topic in request.topics:
        topics.append(_refused(topic.name, error))
        yield
    return topics


def _refused(name: str, error: BrokerError) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error_code(error), name=name, partitions=[])
