"""AlterConfigs (key 33): replace the configuration of topics and brokers as a whole."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ALTER_CONFIGS
from tidelog.plugins.schema.declare import array, boolean, int8, int16, int32, string, struct


@struct()
class AlterableConfig:
    """A key and its new value."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct()
class AlterConfigsResource:
    """Resource to configure; keys that are not in `configs` are reset."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@struct(ALTER_CONFIGS.versions)
class AlterConfigsRequest:
    """Replace configurations; with `validate_only`, nothing is changed."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct()
class AlterConfigsResourceResponse:
    """Result for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@struct(ALTER_CONFIGS.versions)
class AlterConfigsResponse:
    """AlterConfigs response."""

    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
