"""Configuration of topics, brokers and groups: DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import Outcomes, retrying, send_request
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
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
    from collections.abc import Iterable, Sequence

    from tidelog.plugins.client.steps import Session, Steps


ResourceKind = Literal["topic", "broker", "broker-logger", "group", "client-metrics"]

_RESOURCES: Final[Mapping[ResourceKind, int]] = MappingProxyType(
    {
        "topic": TOPIC_RESOURCE,
        "broker": BROKER_RESOURCE,
        "broker-logger": BROKER_LOGGER_RESOURCE,
        "group": GROUP_RESOURCE,
        "client-metrics": CLIENT_METRICS_RESOURCE,
    }
)
_OF_ONE_BROKER: Final = ("broker", "broker-logger")
_SOURCES: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "topic",
        2: "broker",
        3: "cluster",
        4: "static",
        5: "default",
        6: "broker-logger",
        7: "client-metrics",
        8: "group",
    }
)


@attrs.frozen
class ConfigResource:
    """What has a configuration: a topic, a group, a broker by its node id, and so on.

    The kinds are named as the sources of values. A broker without a name stands for all brokers of the
    cluster: their common dynamic configuration.
    """

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else "all brokers"


R = TypeVar("R", bound=str | ConfigResource)


@attrs.frozen
class ConfigValue:
    """Value of a key, None for a sensitive one.

    Attributes:
        name: the key
        value: as text
        is_own: the resource itself sets it
        source: "topic", "group", "broker", "cluster" (dynamic, for all brokers), "static" (a broker's file),
            "default", or "" where the broker is too old to say
        is_sensitive: the broker does not return the value
        is_read_only: it can only be changed in a broker's file
    """

    name: str
    value: str | None
    is_own: bool
    source: str = ""
    is_sensitive: bool = False
    is_read_only: bool = False


_OPERATIONS = {"set": SET, "delete": DELETE, "append": APPEND, "subtract": SUBTRACT}


@attrs.frozen
class ConfigChange:
    """Change of one key.

    `append` and `subtract` are for keys that are lists; `delete` takes no value.
    """

    name: str
    value: str | None = None
    operation: Literal["set", "delete", "append", "subtract"] = "set"


def alter_configs(
    session: Session, changes: Mapping[R, Sequence[ConfigChange]], *, validate_only: bool = False
) -> Steps[Outcomes[R, None]]:
    """Change keys of topics (by their names) and other resources, or only validate the change.

    Return the outcome of each, None for success. Requests are idempotent, so that they are always retried.
    Other keys stay as they are.

    Raises:
        UnsupportedByBroker: the broker does not serve IncrementalAlterConfigs (Kafka before 2.3).
        ClientError: the outcome of what one broker was asked for is unknown.
    """
    outcomes: Outcomes[R, None] = {}
    for node, resources in _by_node(changes).items():
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsResource(
                    resource_type=_RESOURCES[resource.kind],
                    resource_name=resource.name,
                    configs=[_change(change) for change in changes[key]],
                )
                for key, resource in resources.items()
            ],
            validate_only=validate_only,
        )
        answer: IncrementalAlterConfigsResponse = yield from retrying(
            session, partial(send_request, session, request, node=node)
        )
        errors = {
            (result.resource_type, result.resource_name): (result.error_code, result.error_message)
            for result in answer.responses
        }
        for key, resource in resources.items():
            found = errors.get((_RESOURCES[resource.kind], resource.name))
            outcomes[key] = _error(resource, *found) if found else ErrorResponse.missing(_subject(resource))
    return outcomes


def describe_configs(session: Session, resources: Sequence[R]) -> Steps[Outcomes[R, tuple[ConfigValue, ...]]]:
    """Return all keys of each topic (by its name) or other resource.

    Raises:
        UnsupportedByBroker: the broker does not serve DescribeConfigs.
        ClientError: a broker did not answer.
    """
    outcomes: Outcomes[R, tuple[ConfigValue, ...]] = {}
    for node, wanted in _by_node(resources).items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=_RESOURCES[resource.kind],
                    resource_name=resource.name,
                    configuration_keys=None,
                )
                for resource in wanted.values()
            ]
        )
        answer: DescribeConfigsResponse = yield from retrying(
            session, partial(send_request, session, request, node=node)
        )
        results = {(result.resource_type, result.resource_name): result for result in answer.results}
        for key, resource in wanted.items():
            found = results.get((_RESOURCES[resource.kind], resource.name))
            outcomes[key] = _outcome(resource, found) if found else ErrorResponse.missing(_subject(resource))
    return outcomes


def _by_node(resources: Iterable[R]) -> dict[int | None, dict[R, ConfigResource]]:
    """Return what to ask which broker for; None is any of them."""
    by_node: defaultdict[int | None, dict[R, ConfigResource]] = defaultdict(dict)
    for key in resources:
        resource = ConfigResource("topic", key) if isinstance(key, str) else key
        # A broker's own configuration is known by itself alone.
        is_of_one = resource.kind in _OF_ONE_BROKER and resource.name.isdigit()
        by_node[int(resource.name) if is_of_one else None][key] = resource
    return dict(by_node)


def _change(change: ConfigChange) -> IncrementalAlterableConfig:
    return IncrementalAlterableConfig(
        name=change.name, config_operation=_OPERATIONS[change.operation], value=change.value
    )


def _outcome(
    resource: ConfigResource, result: DescribeConfigsResult
) -> tuple[ConfigValue, ...] | ErrorResponse:
    error = _error(resource, result.error_code, result.error_message)
    return error or tuple(_value(resource, config) for config in result.configs)


def _value(resource: ConfigResource, config: DescribeConfigsResourceResult) -> ConfigValue:
    source = _SOURCES.get(config.config_source, "")
    own = resource.kind if resource.name else "cluster"
    # Version 0 has no config source, only whether a value is a default.
    is_own = source == own if source else not config.is_default
    return ConfigValue(config.name, config.value, is_own, source, config.is_sensitive, config.read_only)


def _error(resource: ConfigResource, code: int, message: str | None) -> ErrorResponse | None:
    return ErrorResponse(ErrorCode.of(code), _subject(resource), message) if code else None


def _subject(resource: ConfigResource) -> str:
    return f"configuration of {resource}"
