"""The configuration of topics, from brokers that tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.asking import ask, retrying
from tidelog.plugins.client.operations.outcomes import Outcomes
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    DYNAMIC_TOPIC_SOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.plugins.client.steps import Session, Steps


@attrs.frozen
class ConfigValue:
    """A key of a topic: its value, None for a secret, and whether the topic itself sets it."""

    name: str
    value: str | None
    is_own: bool


def describe_configs(
    session: Session, topics: Sequence[str]
) -> Steps[Outcomes[str, tuple[ConfigValue, ...]]]:
    """All keys of each topic, by the topic's name.

    Raises:
        UnsupportedByBroker: the broker tells no configuration.
        ClientError: no broker answered.
    """
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in topics
        ]
    )
    answer: DescribeConfigsResponse = yield from retrying(session, lambda: ask(session, request))
    told = {result.resource_name: _outcome(result) for result in answer.results}
    return {name: told.get(name, ErrorResponse.of_silence(_subject(name))) for name in topics}


def _outcome(result: DescribeConfigsResult) -> tuple[ConfigValue, ...] | ErrorResponse:
    if result.error_code:
        subject = _subject(result.resource_name)
        return ErrorResponse(ErrorCode.of(result.error_code), subject, result.error_message)
    return tuple(_value(config) for config in result.configs)


def _value(config: DescribeConfigsResourceResult) -> ConfigValue:
    # Version 0 does not tell sources, only whether a value is a default.
    told_source = config.config_source != -1
    is_own = config.config_source == DYNAMIC_TOPIC_SOURCE if told_source else not config.is_default
    return ConfigValue(config.name, config.value, is_own)


def _subject(name: str) -> str:
    return f"configuration of topic {name!r}"
