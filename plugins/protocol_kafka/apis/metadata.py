"""Metadata (API 3): brokers, topics, partitions and their leaders; may create missing topics."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTopic,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.topic_names import INTERNAL_TOPICS, check_topic_name
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.apis.common_fields import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    describe_partition,
)
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.plugins.schema import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic


PARTITIONS_PER_STEP = 8
IDS_SINCE = 12
"""First version that requests topics by id: versions 10 and 11 have the field, but must not use it."""


@in_steps
def handle(context: RequestContext, request: MetadataRequest) -> Generator[None, None, MetadataResponse]:
    """Describe brokers and the requested topics, in steps.

    A missing topic is created in the background when client and configuration allow it. As in Apache Kafka
    it is unknown in this response, and the client retries.
    """
    cluster = context.broker.cluster
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    brokers = [
        MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in cluster.brokers(context.peer.listener_name)
    ]
    topics: list[MetadataResponseTopic] = []
    for answer, topic in (yield from _topics(context, request, operations)):
        topics.append(answer)
        if topic is not None:
            for index in range(len(topic.partitions)):
                answer.partitions.append(describe_partition(MetadataResponsePartition, context, topic, index))
                if index % PARTITIONS_PER_STEP == 0:
                    yield
        yield
    return MetadataResponse(
        brokers=brokers,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _topics(
    context: RequestContext, request: MetadataRequest, operations: int
) -> Generator[None, None, Iterable[tuple[MetadataResponseTopic, Topic | None]]]:
    """Return the result for each topic, still without partitions, and the topic if it exists."""
    everything = request.topics is None or (context.api_version == 0 and not request.topics)
    if everything:
        # `Topics` iterates over a copy: topics may come and go between the steps.
        return ((_found(topic, operations), topic) for topic in context.broker.topics)
    creates = request.allow_auto_topic_creation and context.broker.config[keys.AUTO_CREATE_TOPICS_ENABLE]
    each_once: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for number, asked in enumerate(request.topics or ()):
        each_once[asked.name, asked.topic_id] = asked
        if number % ITEMS_PER_STEP == 0:
            yield
    return (_asked(context, asked, operations, creates=creates) for asked in each_once.values())


def _asked(
    context: RequestContext, asked: MetadataRequestTopic, operations: int, *, creates: bool
) -> tuple[MetadataResponseTopic, Topic | None]:
    try:
        topic = _find(context, asked, creates=creates)
    except UnknownTopicId as error:
        return _unknown(None, asked.topic_id, error), None
    except InvalidTopic as error:
        context.warn("refusing a topic name of", error)
        return _unknown(asked.name or "", asked.topic_id, error), None
    except BrokerError as error:
        return _unknown(asked.name or "", asked.topic_id, error), None
    return _found(topic, operations), topic


def _find(context: RequestContext, asked: MetadataRequestTopic, *, creates: bool) -> Topic:
    topics = context.broker.topics
    if context.api_version < IDS_SINCE and (asked.topic_id != ZERO_UUID or asked.name is None):
        raise InvalidRequest(f"Metadata names topics by id from version {IDS_SINCE} on")
    if asked.topic_id != ZERO_UUID:
        return topics.get_by_id(asked.topic_id)
    name = asked.name or ""
    topic = topics.find(name)
    if topic is None:
        check_topic_name(name)
        if creates and _may_create(context):
            topics.request(name)
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    return topic


def _may_create(context: RequestContext) -> bool:
    """Return whether the client may create one more topic now; as in Kafka the response does not show it."""
    if context.mutations is None:
        return True
    try:
        context.mutations.charge(context.broker.config[kernel_keys.NUM_PARTITIONS])
    except ThrottlingQuotaExceeded:
        return False
    return True


def _unknown(name: str | None, topic_id: bytes, error: BrokerError) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code(error),
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )


def _found(topic: Topic, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        is_internal=topic.is_internal,
        partitions=[],
        topic_authorized_operations=operations,
    )
