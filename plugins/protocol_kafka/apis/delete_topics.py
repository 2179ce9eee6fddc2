"""DeleteTopics (API 20): delete topics by name, or by id in new versions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, InvalidRequest, TopicDeletionDisabled
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.schema import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic


IDS_SINCE = 6
DISABLED_CODE_SINCE = 3


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Handle each topic independently: an error of one does not affect the others."""
    by_id = context.api_version >= IDS_SINCE
    asked = request.topics if by_id else (DeleteTopicState(name=name) for name in request.topic_names)
    times: Counter[object] = Counter()
    first: dict[object, DeleteTopicState] = {}
    pace = Pace()
    for topic in asked:
        # A topic that is named by its name and by its id is repeated, too.
        meant = _meant(context, topic)
        times[meant] += 1
        first.setdefault(meant, topic)
        await pace.turn()
    outcomes: dict[object, Topic | BrokerError] = {}
    for meant in times:
        outcomes[meant] = _deletable(context, first[meant], times[meant])
        await pace.turn()
    topics = {meant: topic for meant, topic in outcomes.items() if not isinstance(topic, BrokerError)}
    deleted = await context.broker.controller.delete_topics([topic.name for topic in topics.values()])
    outcomes |= {meant: error for meant, error in zip(topics, deleted, strict=True) if error is not None}
    answers: list[DeletableTopicResult] = []
    for meant, outcome in outcomes.items():
        answers.append(_result(context, first[meant], topics.get(meant), outcome))
        await pace.turn()
    return DeleteTopicsResponse(responses=answers)


def _meant(context: RequestContext, asked: DeleteTopicState) -> object:
    """Return what identifies a topic in the request: its name or its id."""
    topics = context.broker.topics
    topic = topics.find_by_id(asked.topic_id) if asked.name is None else topics.find(asked.name)
    return (asked.name, asked.topic_id) if topic is None else topic


def _deletable(context: RequestContext, asked: DeleteTopicState, times: int) -> Topic | BrokerError:
    """Return the topic to delete, or why none is deleted."""
    broker = context.broker
    name, topic_id = asked.name, asked.topic_id
    if not broker.config[keys.DELETE_TOPIC_ENABLE]:
        return TopicDeletionDisabled("delete.topic.enable is false on this broker")
    if (name is None) == (topic_id == ZERO_UUID):
        return InvalidRequest("a topic is deleted either by its name or by its id")
    if times > 1:
        return InvalidRequest(f"topic {name or topic_id.hex()!r} is in the request {times} times")
    try:
        topic = broker.topics.get(name) if name is not None else broker.topics.get_by_id(topic_id)
        if context.mutations is not None:
            context.mutations.charge(len(topic.partitions))
        return topic
    except BrokerError as error:
        return error


def _result(
    context: RequestContext, asked: DeleteTopicState, found: Topic | None, outcome: Topic | BrokerError
) -> DeletableTopicResult:
    name, topic_id = (asked.name, asked.topic_id) if found is None else (found.name, found.topic_id.bytes)
    if not isinstance(outcome, BrokerError):
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=0)
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=_code(context, outcome),
        error_message=context.error_message(outcome),
    )


def _code(context: RequestContext, error: BrokerError) -> ErrorCode:
    if isinstance(error, TopicDeletionDisabled) and context.api_version < DISABLED_CODE_SINCE:
        return ErrorCode.INVALID_REQUEST
    return error_code(error)
