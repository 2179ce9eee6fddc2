"""Topic configuration: DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import Outcomes, retrying, send_request
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
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.plugins.client.steps import Session, Steps


@attrs.frozen
class ConfigValue:
    """Value of a topic's key, None for a sensitive one; `is_own` when the topic itself sets it."""

    name: str
    value: str | None
    is_own: bool


_OPERATIONS = {"set": SET, "delete": DELETE, "append": APPEND, "subtract": SUBTRACT}


@attrs.frozen
class ConfigChange:
    """Change of one key of a topic.

    `append` and `subtract` are for keys that are lists; `delete` takes no value.
    """

    name: str
    value: str | None = None
    operation: Literal["set", "delete", "append", "subtract"] = "set"


def alter_configs(
    session: Session, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
) -> Steps[Outcomes[str, None]]:
    """Change keys of topics, or only validate the change; return the outcome of each topic by its name.

    The request is idempotent, so that it is always retried. Other keys stay as they are.

    Raises:
        UnsupportedByBroker: the broker does not serve IncrementalAlterConfigs (Kafka before 2.3).
        ClientError: the outcome of every topic is unknown.
    """
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=name,
                configs=[_change(change) for change in wanted],
            )
            for name, wanted in changes.items()
        ],
        validate_only=validate_only,
    )
    answer: IncrementalAlterConfigsResponse = yield from retrying(
        session, lambda: send_request(session, request)
    )
    results: Outcomes[str, None] = {
        result.resource_name: _error(result.resource_name, result.error_code, result.error_message)
        for result in answer.responses
    }
    return {name: results.get(name, ErrorResponse.missing(_subject(name))) for name in changes}


def _change(change: ConfigChange) -> IncrementalAlterableConfig:
    return IncrementalAlterableConfig(
        name=change.name, config_operation=_OPERATIONS[change.operation], value=change.value
    )


def _error(name: str, code: int, message: str | None) -> ErrorResponse | None:
    return ErrorResponse(ErrorCode.of(code), _subject(name), message) if code else None


def describe_configs(
    session: Session, topics: Sequence[str]
) -> Steps[Outcomes[str, tuple[ConfigValue, ...]]]:
    """Return all keys of each topic, by the topic's name.

    Raises:
        UnsupportedByBroker: the broker does not serve DescribeConfigs.
        ClientError: no broker answered.
    """
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in topics
        ]
    )
    answer: DescribeConfigsResponse = yield from retrying(session, lambda: send_request(session, request))
    results = {result.resource_name: _outcome(result) for result in answer.results}
    return {name: results.get(name, ErrorResponse.missing(_subject(name))) for name in topics}


def _outcome(result: DescribeConfigsResult) -> tuple[ConfigValue, ...] | ErrorResponse:
    error = _error(result.resource_name, result.error_code, result.error_message)
    return error or tuple(_value(config) for config in result.configs)


def _value(config: DescribeConfigsResourceResult) -> ConfigValue:
    # Version 0 has no config source, only whether a value is a default.
    has_source = config.config_source != -1
    is_own = config.config_source == DYNAMIC_TOPIC_SOURCE if has_source else not config.is_default
    return ConfigValue(config.name, config.value, is_own)


def _subject(name: str) -> str:
    return f"configuration of topic {name!r}"
