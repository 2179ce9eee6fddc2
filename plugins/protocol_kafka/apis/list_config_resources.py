"""ListConfigResources (API 74): the resources whose configuration DescribeConfigs returns (KIP-1142)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial

from tidelog.kernel.pace import each_in_steps
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)

TYPES_SINCE = 1


def _topics(context: RequestContext) -> Iterable[str]:
    return (topic.name for topic in context.broker.topics)


def _brokers(context: RequestContext) -> Iterable[str]:
    cluster = context.broker.cluster
    return (str(broker.node_id) for broker in cluster.brokers(context.peer.listener_name))


def _groups(context: RequestContext) -> Iterable[str]:
    return context.broker.resource_configs.names("group")


def _client_metrics(context: RequestContext) -> Iterable[str]:
    return context.broker.resource_configs.names("client-metrics")


_NAMES_OF: Mapping[int, Callable[[RequestContext], Iterable[str]]] = {
    TOPIC_RESOURCE: _topics,
    BROKER_RESOURCE: _brokers,
    BROKER_LOGGER_RESOURCE: _brokers,
    CLIENT_METRICS_RESOURCE: _client_metrics,
    GROUP_RESOURCE: _groups,
}
"""The types of resources that there are."""


@in_steps
def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> Generator[None, None, ListConfigResourcesResponse]:
    """List the resources of the requested types, of all types if none is named, in steps."""
    types = set(request.resource_types or _NAMES_OF.keys())
    if context.api_version < TYPES_SINCE:
        types = {CLIENT_METRICS_RESOURCE}
    if not _NAMES_OF.keys() >= types:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    resources: list[ListedConfigResource] = []
    for kind in sorted(types):
        resources += yield from each_in_steps(_NAMES_OF[kind](context), partial(_resource, kind))
    return ListConfigResourcesResponse(error_code=0, config_resources=resources)


def _resource(kind: int, name: str) -> ListedConfigResource:
    return ListedConfigResource(resource_name=name, resource_type=kind)
