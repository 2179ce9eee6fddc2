"""What AlterConfigs and IncrementalAlterConfigs share: whose configuration it is, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from tidelog.kernel.config.altering import Alter
from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.kernel.topics import check_topic_name
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE


class Resource(Protocol):
    """What a configuration is of."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


async def each_resource(
    context: RequestContext, resources: Sequence[R], change: Callable[[R], Awaitable[None]]
) -> list[tuple[R, BrokerError | None]]:
    """Change each resource by itself; why each was refused. One that is there twice is refused once."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    first = {(resource.resource_type, resource.resource_name): resource for resource in reversed(resources)}
    outcomes: list[tuple[R, BrokerError | None]] = []
    for place, resource in ((place, first[place]) for place in times):
        try:
            if times[place] > 1:
                raise InvalidRequest("each resource may be in a request only once")
            await change(resource)
        except BrokerError as error:
            context.warn(f"refusing to configure {resource.resource_name!r} for", error)
            outcomes.append((resource, error))
        else:
            outcomes.append((resource, None))
    return outcomes


async def change_config(
    context: RequestContext, resource: Resource, alter: Alter, *, validate_only: bool
) -> None:
    """Change the configuration of a topic or of this broker.

    Raises:
        BrokerError: it is refused; see `Topics.alter_config` and `DynamicConfig.alter`.
    """
    kind, name = resource.resource_type, resource.resource_name
    broker = context.broker
    if kind == TOPIC_RESOURCE:
        if not name:
            raise InvalidRequest("a topic without a name has no configuration")
        check_topic_name(name)
        await broker.topics.alter_config(name, alter, validate_only=validate_only)
    elif kind == BROKER_RESOURCE:
        await broker.dynamic_config.alter(node_named(context, name), alter, validate_only=validate_only)
    else:
        raise InvalidRequest(f"resources of type {kind} have no configuration here")


def node_named(context: RequestContext, name: str) -> int | None:
    """The node that a resource names, None for what holds for all brokers.

    Raises:
        InvalidRequest: it names another broker.
    """
    node_id = context.broker.cluster.node_id
    if name not in ("", str(node_id)):
        raise InvalidRequest(f"this is broker {node_id}, not broker {name!r}")
    return node_id if name else None
