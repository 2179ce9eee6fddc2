"""DescribeConfigs (key 32): the configuration of topics and brokers."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_CONFIGS
from tidelog.plugins.schema.declare import array, boolean, int8, int16, int32, string, struct
from tidelog.plugins.schema.types import STRING

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32


@struct()
class DescribeConfigsResource:
    """Resource to describe; null keys means all of them."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(STRING, nullable="0+")


@struct(DESCRIBE_CONFIGS.versions)
class DescribeConfigsRequest:
    """Request configurations, with their synonyms and documentation."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(versions="1+", default=False)
    include_documentation: bool = boolean(versions="3+", default=False)


@struct()
class DescribeConfigsSynonym:
    """A source of the value, in order of precedence."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@struct()
class DescribeConfigsResourceResult:
    """One key; the value is null when it is sensitive."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean(versions="0", default=False)
    config_source: int = int8(versions="1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(
        DescribeConfigsSynonym, versions="1+", factory=list, ignorable=True
    )
    config_type: int = int8(versions="3+", default=0, ignorable=True)
    documentation: str | None = string(versions="3+", nullable="0+", default=None, ignorable=True)


@struct()
class DescribeConfigsResult:
    """One resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@struct(DESCRIBE_CONFIGS.versions)
class DescribeConfigsResponse:
    """DescribeConfigs response."""

    throttle_time_ms: int = int32(default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
