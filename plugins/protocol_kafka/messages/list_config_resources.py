"""ListConfigResources (key 74): names of resources that have a configuration (KIP-1142).

Version 0 is ListClientMetricsResources (KIP-1000), which lists client metrics only.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import LIST_CONFIG_RESOURCES
from tidelog.plugins.protocol_kafka.messages.describe_configs import CLIENT_METRICS_RESOURCE
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct
from tidelog.plugins.schema.types import INT8


@struct(LIST_CONFIG_RESOURCES.versions)
class ListConfigResourcesRequest:
    """Request resources of some types, or with an empty list of all."""

    resource_types: list[int] = array(INT8, versions="1+", factory=list)


@struct()
class ListedConfigResource:
    """A resource and its type."""

    resource_name: str = string()
    resource_type: int = int8(versions="1+", default=CLIENT_METRICS_RESOURCE, ignorable=True)


@struct(LIST_CONFIG_RESOURCES.versions)
class ListConfigResourcesResponse:
    """ListConfigResources response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    config_resources: list[ListedConfigResource] = array(ListedConfigResource)
