"""DeleteTopics (API 20): delete topics by name, or by id in new versions."""

from __future__ import annotations

from collections import Counter

from tidelog.kernel.errors import BrokerError, InvalidRequest, TopicDeletionDisabled
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.codecs import ZERO_UUID
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

IDS_SINCE = 6
DISABLED_CODE_SINCE = 3


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Handle each topic independently: an error of one does not affect the others."""
    by_id = context.api_version >= IDS_SINCE
    asked = request.topics if by_id else [DeleteTopicState(name=name) for name in request.topic_names]
    times: Counter[object] = Counter()
    first: dict[object, DeleteTopicState] = {}
    pace = Pace()
    for topic in asked:
        meant = _meant(context, topic)
        times[meant] += 1
        first.setdefault(meant, topic)
        await pace.turn()
    answers: list[DeletableTopicResult] = []
    for meant in times:
        answers.append(await _delete(context, first[meant], times[meant]))
        await pace.turn()
    return DeleteTopicsResponse(responses=answers)


def _meant(context: RequestContext, asked: DeleteTopicState) -> object:
    """Return what identifies a topic in the request: its name or its id."""
    topics = context.broker.topics
    topic = topics.find_by_id(asked.topic_id) if asked.name is None else topics.find(asked.name)
    return (asked.name, asked.topic_id) if topic is None else topic


async def _delete(context: RequestContext, asked: DeleteTopicState, times: int) -> DeletableTopicResult:
    broker = context.broker
    name, topic_id = asked.name, asked.topic_id
    try:
        if not broker.config[keys.DELETE_TOPIC_ENABLE]:
            raise TopicDeletionDisabled("delete.topic.enable is false on this broker")
        if (name is None) == (topic_id == ZERO_UUID):
            raise InvalidRequest("a topic is deleted either by its name or by its id")
        if times > 1:
            raise InvalidRequest(f"topic {name or topic_id.hex()!r} is in the request {times} times")
        topic = broker.topics.get(name) if name is not None else broker.topics.get_by_id(topic_id)
        name, topic_id = topic.name, topic.topic_id.bytes
        await broker.topics.delete(name)
    except BrokerError as error:
        return DeletableTopicResult(
            name=name,
            topic_id=topic_id,
            error_code=_code(context, error),
            error_message=context.error_message(error),
        )
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=0)


def _code(context: RequestContext, error: BrokerError) -> ErrorCode:
    if isinstance(error, TopicDeletionDisabled) and context.api_version < DISABLED_CODE_SINCE:
        return ErrorCode.INVALID_REQUEST
    return error_code(error)
