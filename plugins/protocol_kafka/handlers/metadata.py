"""Metadata (API 3): brokers, topics, partitions and their leaders; creates topics that are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel.config import keys
from tidelog.kernel.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTopic,
    StorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel.topics import INTERNAL_TOPICS, Topic, check_topic_name
from tidelog.plugins.protocol_kafka.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from tidelog.plugins.protocol_kafka.codecs import ZERO_UUID
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER = -1
IDS_SINCE = 12
"""Versions 10 and 11 have a field for the id, and no client may use it."""


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe what is asked for.

    A missing topic is created in the background when client and configuration allow it. As in Apache Kafka
    it is unknown in this answer, and the client asks again.
    """
    return _describe(context, request)


def _describe(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    cluster = context.broker.cluster
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    brokers = [
        MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in cluster.brokers(context.peer.listener_name)
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=[*_topics(context, request, operations)],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _topics(
    context: RequestContext, request: MetadataRequest, operations: int
) -> Iterable[MetadataResponseTopic]:
    everything = request.topics is None or (context.api_version == 0 and not request.topics)
    if everything:
        return (_found(context, topic, operations) for topic in context.broker.topics)
    creates = request.allow_auto_topic_creation and context.broker.config[keys.AUTO_CREATE_TOPICS_ENABLE]
    each_once = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
    return (_asked(context, asked, operations, creates=creates) for asked in each_once.values())


def _asked(
    context: RequestContext, asked: MetadataRequestTopic, operations: int, *, creates: bool
) -> MetadataResponseTopic:
    topics = context.broker.topics
    try:
        if context.api_version < IDS_SINCE and (asked.topic_id != ZERO_UUID or asked.name is None):
            raise InvalidRequest(f"Metadata names topics by id from version {IDS_SINCE} on")
        if asked.topic_id != ZERO_UUID:
            return _found(context, topics.get_by_id(asked.topic_id), operations)
        name = asked.name or ""
        topic = topics.find(name)
        if topic is not None:
            return _found(context, topic, operations)
        check_topic_name(name)
        if creates:
            topics.request(name)
        return _unknown(name, ZERO_UUID, UnknownTopicOrPartition(f"topic {name!r} does not exist"))
    except UnknownTopicId as error:
        return _unknown(None, asked.topic_id, error)
    except InvalidTopic as error:
        context.warn("refusing a topic name of", error)
        return _unknown(asked.name or "", asked.topic_id, error)
    except BrokerError as error:
        return _unknown(asked.name or "", asked.topic_id, error)


def _unknown(name: str | None, topic_id: bytes, error: BrokerError) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code(error),
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )


def _found(context: RequestContext, topic: Topic, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        is_internal=topic.is_internal,
        partitions=[_partition(context, topic, index) for index in range(len(topic.partitions))],
        topic_authorized_operations=operations,
    )


def _partition(context: RequestContext, topic: Topic, index: int) -> MetadataResponsePartition:
    leader, partition = context.broker.cluster.leader_of(topic.name, index), topic.partitions[index]
    is_offline = isinstance(partition.offline, StorageError)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if is_offline else 0,
        partition_index=index,
        leader_id=NO_LEADER if is_offline else leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[leader],
        isr_nodes=[leader],
        offline_replicas=[leader] if is_offline else [],
    )
