"""ConsumerGroupHeartbeat (API 68): members of the consumer protocol join, stay and leave (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from tidelog.kernel.errors import BrokerError, InvalidRequest, UnsupportedVersion
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.kernel.seams.features import CONSUMER_PROTOCOL, GROUP_VERSION
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

CLIENTS_MAKE_MEMBER_IDS_SINCE = 1
UNCHANGED = -1
MAX_TOPICS = 10_000
"""Most topics of one member: all are looked up whenever the group's target assignment is computed."""


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Return the member's epoch and, if it has to know, its assignment; nearly always at once."""
    try:
        check_consumer_protocol(context)
        _check_size(request)
        answer = context.broker.coordinator.consumer_groups.heartbeat(_asked(context, request))
    except BrokerError as error:
        return _refusal(context, error)
    return _response(answer) if isinstance(answer, HeartbeatAnswer) else _wait(context, answer)


def check_consumer_protocol(context: RequestContext) -> None:
    """Check that clients may use the consumer protocol.

    Raises:
        UnsupportedVersion: the finalized level of `group.version` does not have it.
    """
    if context.broker.features.level(GROUP_VERSION) < CONSUMER_PROTOCOL:
        raise UnsupportedVersion(
            f"the consumer protocol is disabled: it needs {GROUP_VERSION} {CONSUMER_PROTOCOL}, which "
            "kafka-features.sh upgrade sets"
        )


async def _wait(
    context: RequestContext, answer: Awaitable[HeartbeatAnswer]
) -> ConsumerGroupHeartbeatResponse:
    try:
        return _response(await answer)
    except BrokerError as error:
        return _refusal(context, error)


def _refusal(context: RequestContext, error: BrokerError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error_code(error),
        error_message=context.error_message(error),
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def _check_size(request: ConsumerGroupHeartbeatRequest) -> None:
    for what, named in (("topics", request.subscribed_topic_names), ("topics", request.topic_partitions)):
        if named is not None and len(named) > MAX_TOPICS:
            raise InvalidRequest(f"a member names {len(named)} {what}, more than {MAX_TOPICS}")


def _asked(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeat:
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return ConsumerGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == UNCHANGED else timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_by_topic(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        brings_member_id=context.api_version >= CLIENTS_MAKE_MEMBER_IDS_SINCE,
        visible_topics=context.visible_topics,
    )


def _by_topic(topics: Sequence[ConsumerGroupHeartbeatTopicPartitions] | None) -> PartitionsByTopic | None:
    """Return partitions by topic; topics without partitions are ignored."""
    if topics is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    assignment = answer.assignment
    return ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None
        if assignment is None
        else ConsumerGroupHeartbeatAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )
