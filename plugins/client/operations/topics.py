"""CreateTopics, CreatePartitions and DeleteTopics, sent to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import attrs

from tidelog.plugins.client.cluster import NO_NODE
from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnsendableRequest
from tidelog.plugins.client.operations.sending import Outcomes, refresh, retry_each, retrying, send_request
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import CREATE_TOPICS, DELETE_TOPICS
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.plugins.client.steps import Session, Steps

BROKER_DEFAULT: Final = -1
DELETE_BY_STATE_SINCE: Final = 6
DEFAULTS_SINCE: Final = 4
"""First version of CreateTopics with the broker's default counts (KIP-464)."""

_RETRIABLE_REFUSALS: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@attrs.frozen
class NewTopic:
    """Topic to create; -1 means the broker's default. `config` has the topic's own values by key."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    config: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen
class CreatedTopic:
    """Topic that was created from a `NewTopic`.

    The id is all zeros, counts are -1 and `config` (values by key, with the defaults) is None when the
    broker does not send them.
    """

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int
    config: Mapping[str, str | None] | None


def create_topics(
    session: Session, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> Steps[Outcomes[str, CreatedTopic]]:
    """Create topics, or only validate the request; return the outcome of each by its name.

    Raises:
        ClientError: nothing is known of any topic. After `BrokerClosed` and `RequestTimedOut` the broker may
            or may not have created them.
    """
    by_name = {topic.name: topic for topic in topics}

    def attempt(names: list[str]) -> Steps[Outcomes[str, CreatedTopic]]:
        def build(version: int) -> CreateTopicsRequest:
            topics = [_creatable(by_name[name]) for name in names]
            if version < DEFAULTS_SINCE and any(
                BROKER_DEFAULT in (each.num_partitions, each.replication_factor) for each in topics
            ):
                too_old = "it is too old to choose partitions or replicas (Kafka 2.4): name both"
                raise UnsendableRequest("the controller", too_old)
            return CreateTopicsRequest(
                topics=topics, timeout_ms=_timeout_ms(session), validate_only=validate_only
            )

        answer = yield from _send_to_controller(session, ByVersion(CREATE_TOPICS, build))
        results = {result.name: _created(result) for result in answer.topics}
        return _outcomes(session, names, results)

    return (yield from retry_each(session, by_name, attempt, _is_retriable_refusal))


def create_partitions(
    session: Session, counts: Mapping[str, int], *, validate_only: bool = False
) -> Steps[Outcomes[str, None]]:
    """Raise the number of partitions of topics to `counts` by name; return each outcome, None for success.

    Raises:
        ClientError: nothing is known of any topic. After `BrokerClosed` and `RequestTimedOut` the broker may
            or may not have added them.
    """

    def attempt(names: list[str]) -> Steps[Outcomes[str, None]]:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=counts[name], assignments=None) for name in names],
            timeout_ms=_timeout_ms(session),
            validate_only=validate_only,
        )
        answer = yield from _send_to_controller(session, request)
        results: Outcomes[str, None] = {
            result.name: _error(result.error_code, result.name, result.error_message)
            for result in answer.results
        }
        return _outcomes(session, names, results)

    return (yield from retry_each(session, counts, attempt, _is_retriable_refusal))


def delete_topics(session: Session, names: Sequence[str]) -> Steps[Outcomes[str, None]]:
    """Delete topics with their records; return the outcome of each by its name, None for success.

    Raises:
        ClientError: nothing is known of any topic. After `BrokerClosed` and `RequestTimedOut` the broker may
            or may not have deleted them.
    """

    def attempt(names: list[str]) -> Steps[Outcomes[str, None]]:
        answer = yield from _send_to_controller(session, ByVersion(DELETE_TOPICS, _deletion(session, names)))
        results: Outcomes[str, None] = {
            result.name or "": _error(result.error_code, result.name, result.error_message)
            for result in answer.responses
        }
        return _outcomes(session, names, results)

    return (yield from retry_each(session, names, attempt, _is_retriable_refusal))


def _send_to_controller(session: Session, request: object) -> Steps[Any]:
    """Send a request to the controller; retry only if it certainly did not reach the broker.

    Otherwise a retry could fail because of what the first attempt created.
    """

    def may_retry(error: ClientError) -> bool:
        return error.retriable and not error.reached_broker

    return (yield from retrying(session, lambda: _send_once(session, request), may_retry=may_retry))


def _send_once(session: Session, request: object) -> Steps[Any]:
    if session.cluster.controller == NO_NODE:
        yield from refresh(session)
    controller = session.cluster.controller
    try:
        return (yield from send_request(session, request, node=None if controller == NO_NODE else controller))
    except ClientError:
        session.cluster.forget_controller()
        raise


def _outcomes(session: Session, names: Sequence[str], results: Outcomes[str, Any]) -> Outcomes[str, Any]:
    outcomes = {name: results.get(name, ErrorResponse.missing(f"topic {name!r}")) for name in names}
    if any(_is_retriable_refusal(outcome) for outcome in outcomes.values()):
        session.cluster.forget_controller()
    return outcomes


def _is_retriable_refusal(outcome: object) -> bool:
    return isinstance(outcome, ErrorResponse) and outcome.code in _RETRIABLE_REFUSALS


def _error(code: int, name: str | None, message: str | None) -> ErrorResponse | None:
    return ErrorResponse(ErrorCode.of(code), f"topic {name!r}", message) if code else None


def _timeout_ms(session: Session) -> int:
    return int(session.settings.request_timeout_s * 1000)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.config.items()],
    )


def _created(result: CreatableTopicResult) -> CreatedTopic | ClientError:
    return _error(result.error_code, result.name, result.error_message) or CreatedTopic(
        result.name,
        UUID(bytes=bytes(result.topic_id)),
        result.num_partitions,
        result.replication_factor,
        None if not result.configs else {config.name: config.value for config in result.configs},
    )


def _deletion(session: Session, names: Sequence[str]) -> Any:
    def build(version: int) -> DeleteTopicsRequest:
        if version >= DELETE_BY_STATE_SINCE:
            states = [DeleteTopicState(name=name) for name in names]
            return DeleteTopicsRequest(topics=states, timeout_ms=_timeout_ms(session))
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=_timeout_ms(session))

    return build
