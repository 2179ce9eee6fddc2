"""What AlterConfigs and IncrementalAlterConfigs share: whose configuration it is, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from tidelog.kernel.config.altering import Alter
from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.kernel.pace import Pace
from tidelog.kernel.topic_names import check_topic_name
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE


class Resource(Protocol):
    """What a configuration is of."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[object]:
        """What is to change."""
        ...


MAX_CHANGES_PER_RESOURCE = 1000
"""There are not three hundred keys."""

R = TypeVar("R", bound=Resource)
A = TypeVar("A")


async def each_resource(
    context: RequestContext,
    resources: Sequence[R],
    change: Callable[[R], Awaitable[None]],
    answer: Callable[[R, BrokerError | None], A],
) -> list[A]:
    """Change each resource by itself; the answers, given why it was refused, if it was.

    One that is there twice is refused once.
    """
    times: Counter[tuple[int, str]] = Counter()
    first: dict[tuple[int, str], R] = {}
    pace = Pace()
    for resource in resources:
        place = resource.resource_type, resource.resource_name
        times[place] += 1
        first.setdefault(place, resource)
        await pace.turn()
    answers: list[A] = []
    for place, resource in ((place, first[place]) for place in times):
        try:
            if times[place] > 1:
                raise InvalidRequest("each resource may be in a request only once")
            if len(resource.configs) > MAX_CHANGES_PER_RESOURCE:
                raise InvalidRequest(
                    f"{len(resource.configs)} changes of a resource are more than {MAX_CHANGES_PER_RESOURCE}"
                )
            await change(resource)
        except BrokerError as error:
            context.warn(f"refusing to configure {resource.resource_name!r} for", error)
            answers.append(answer(resource, error))
        else:
            answers.append(answer(resource, None))
        await pace.turn()
    return answers


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
