"""IncrementalAlterConfigs (key 44): change single keys of topics and brokers (KIP-339)."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import INCREMENTAL_ALTER_CONFIGS
from tidelog.plugins.schema.declare import array, boolean, int8, int16, int32, string, struct

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3


@struct()
class IncrementalAlterableConfig:
    """A key and its operation; the value is null for a deletion."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@struct()
class IncrementalAlterConfigsResource:
    """Resource to configure; other keys stay as they are."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterableConfig] = array(IncrementalAlterableConfig)


@struct(INCREMENTAL_ALTER_CONFIGS.versions)
class IncrementalAlterConfigsRequest:
    """Change configurations; with `validate_only`, nothing is changed."""

    resources: list[IncrementalAlterConfigsResource] = array(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


@struct()
class IncrementalAlterConfigsResourceResponse:
    """Result for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@struct(INCREMENTAL_ALTER_CONFIGS.versions)
class IncrementalAlterConfigsResponse:
    """IncrementalAlterConfigs response."""

    throttle_time_ms: int = int32(default=0)
    responses: list[IncrementalAlterConfigsResourceResponse] = array(IncrementalAlterConfigsResourceResponse)
