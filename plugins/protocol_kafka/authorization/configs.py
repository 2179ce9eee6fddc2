"""The guards of DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from tidelog.kernel.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_kafka.authorization.guarding import Access, Guard, narrowed
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)

_OF_CLUSTER: Final = ResourceType.CLUSTER, ClusterAuthorizationFailed
_TYPES: Final[Mapping[int, tuple[ResourceType, type[BrokerError]]]] = {
    TOPIC_RESOURCE: (ResourceType.TOPIC, TopicAuthorizationFailed),
    GROUP_RESOURCE: (ResourceType.GROUP, GroupAuthorizationFailed),
    BROKER_RESOURCE: _OF_CLUSTER,
    BROKER_LOGGER_RESOURCE: _OF_CLUSTER,
    CLIENT_METRICS_RESOURCE: _OF_CLUSTER,
}


def each_resource(operation: AclOperation, answered: str) -> Guard:
    """Return the guard of an API that needs an operation on each resource; `answered` names its results."""

    def guard(access: Access, request: Any) -> Generator[Any, Any, Any]:
        served: list[Any] = []
        refused: list[tuple[Any, type[BrokerError]]] = []
        for number, resource in enumerate(request.resources, 1):
            # One of an unknown type is the handler's, which refuses it.
            kind, error = _TYPES.get(resource.resource_type, (None, BrokerError))
            name = CLUSTER_NAME if kind == ResourceType.CLUSTER else resource.resource_name
            if kind is None or access.allows(kind, operation, name):
                served.append(resource)
            else:
                refused.append((resource, error))
            if number % ITEMS_PER_STEP == 0:
                yield
        if not refused:
            return (yield request)
        results: list[Any] = []
        for resource, error in refused:
            text = f"{error.__name__.removesuffix('AuthorizationFailed')} authorization failed."
            part = access.refused(narrowed(request, resources=[resource]), error, text)
            results += getattr(part, answered)
        response = yield narrowed(request, resources=served)
        setattr(response, answered, [*getattr(response, answered), *results])
        return response

    return guard
