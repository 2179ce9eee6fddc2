"""Common part of AlterConfigs and IncrementalAlterConfigs: resources, and changes of their configuration.

A change replaces all settings, or sets and deletes single keys, or adds items to lists and removes some
(KIP-339).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from tidelog.kernel.config import Alter, ConfigKey
from tidelog.kernel.config.types import split_list
from tidelog.kernel.errors import BrokerError, InvalidConfig, InvalidRequest
from tidelog.kernel.pace import Pace
from tidelog.kernel.topic_names import check_topic_name
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)

if TYPE_CHECKING:
    from tidelog.kernel.seams.resource_configs import ResourceScope

SCOPES: Mapping[int, ResourceScope] = {GROUP_RESOURCE: "group", CLIENT_METRICS_RESOURCE: "client-metrics"}
"""The resources beside topics and brokers, by their number in the protocol."""


class Resource(Protocol):
    """Resource of an AlterConfigs or IncrementalAlterConfigs request."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[object]:
        """The keys to change."""
        ...


MAX_CHANGES_PER_RESOURCE = 1000
"""Limit of keys; there are fewer than three hundred."""

R = TypeVar("R", bound=Resource)
A = TypeVar("A")


async def each_resource(
    context: RequestContext,
    resources: Sequence[R],
    change: Callable[[R], Awaitable[None]],
    answer: Callable[[R, BrokerError | None], A],
) -> list[A]:
    """Change each resource independently; return the results of `answer`, called with its error or None.

    A repeated resource is refused, with one result.
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
    """Change the configuration of a topic, of this broker, of a group or of client metrics.

    Raises:
        BrokerError: it is refused; see `Topics.alter_config`, `DynamicConfig.alter` and
            `ResourceConfigs.alter`.
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
    elif kind in SCOPES:
        await broker.resource_configs.alter(SCOPES[kind], name, alter, validate_only=validate_only)
    else:
        raise InvalidRequest(f"resources of type {kind} have no configuration here")


def node_named(context: RequestContext, name: str) -> int | None:
    """Return the node that a resource names, None for the default of all brokers.

    Raises:
        InvalidRequest: it names another broker.
    """
    node_id = context.broker.cluster.node_id
    if name not in ("", str(node_id)):
        raise InvalidRequest(f"this is broker {node_id}, not broker {name!r}")
    return node_id if name else None


class AlterOperation(enum.IntEnum):
    """The operation on a key, by its number in the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@attrs.frozen
class Alteration:
    """One key and the operation on it; `value` is ignored for DELETE."""

    name: str
    operation: AlterOperation
    value: str | None = None


def replaced_by(settings: Sequence[tuple[str, str | None]]) -> Alter:
    """Return the change that replaces all that is set by `settings`.

    Raises:
        InvalidRequest: a key is there twice or has no value.
    """
    _refuse_twice([name for name, _ in settings])
    _refuse_null([name for name, value in settings if value is None])
    new = {name: value for name, value in settings if value is not None}
    return lambda before: dict(new)


def altered_by(
    alterations: Sequence[Alteration],
    find_key: Callable[[str], ConfigKey[object] | None],
    in_force: Callable[[str], str],
) -> Alter:
    """Return the change that applies each alteration to what is set; other keys stay.

    Args:
        alterations: the changes of single keys
        find_key: the key of a name, None for an unknown one
        in_force: the value that a key has without a setting, which lists are added to and taken from

    Raises:
        InvalidRequest: a key is there twice or lacks a value that its operation needs.
    """
    _refuse_twice([alteration.name for alteration in alterations])
    _refuse_null(
        [
            alteration.name
            for alteration in alterations
            if alteration.value is None and alteration.operation is not AlterOperation.DELETE
        ]
    )

    def alter(before: Mapping[str, str]) -> dict[str, str]:
        after = dict(before)
        for alteration in alterations:
            name, value = alteration.name, alteration.value
            if alteration.operation is AlterOperation.DELETE or value is None:
                after.pop(name, None)
            elif alteration.operation is AlterOperation.SET:
                after[name] = value
            else:
                key = find_key(name)
                if key is None or key.type.name != "list":
                    raise InvalidConfig(f"{name} is no list that something can be added to or taken from")
                present = after[name] if name in after else in_force(name)
                after[name] = _changed_list(alteration.operation, present, value, name)
        return after

    return alter


def _changed_list(operation: AlterOperation, present: str, value: str, name: str) -> str:
    try:
        items, change = list(split_list(present)), split_list(value)
    except ValueError as error:
        raise InvalidConfig(f"{name} = {value!r}: {error}") from None
    if operation is AlterOperation.APPEND:
        items += [item for item in dict.fromkeys(change) if item not in items]
    else:
        items = [item for item in items if item not in change]
    return ",".join(items)


def _refuse_twice(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        doubled = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidRequest(f"{doubled} is in the request more than once")


def _refuse_null(names: Sequence[str]) -> None:
    if names:
        raise InvalidRequest(f"a null value is no value for {', '.join(names)}")
