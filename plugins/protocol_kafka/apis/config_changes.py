"""Common part of AlterConfigs and IncrementalAlterConfigs: resources, and changes of their configuration.

A change replaces all settings, or sets and deletes single keys, or adds items to lists and removes some
(KIP-339).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from tidelog.kernel.config import Alter, ConfigKey
from tidelog.kernel.config.types import split_list
from tidelog.kernel.errors import BrokerError, InvalidConfig, InvalidRequest
from tidelog.kernel.pace import Pace
from tidelog.kernel.topic_names import check_topic_name
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ResourceScope

SCOPES: Mapping[int, ResourceScope] = {GROUP_RESOURCE: "group", CLIENT_METRICS_RESOURCE: "client-metrics"}
"""The resources beside topics and brokers that the metadata has, by their number in the protocol."""


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


async def change_configs(
    context: RequestContext,
    resources: Sequence[R],
    alter_of: Callable[[R], Alter],
    answer: Callable[..., A],
    *,
    validate_only: bool,
) -> list[A]:
    """Change the configurations of resources; return what `answer` makes of the fields of each result.

    An error of one does not affect the others. A repeated resource is refused, each time.
    """
    times: Counter[tuple[int, str]] = Counter()
    pace = Pace()
    for resource in resources:
        times[resource.resource_type, resource.resource_name] += 1
        await pace.turn()
    outcomes: dict[int, BrokerError | None] = {}
    changes: dict[int, dict[int, tuple[str, Alter]]] = {}
    for index, resource in enumerate(resources):
        kind, name = resource.resource_type, resource.resource_name
        try:
            _check_resource(resource, times[kind, name])
            changes.setdefault(kind, {})[index] = name, alter_of(resource)
        except BrokerError as error:
            outcomes[index] = error
        await pace.turn()
    for kind, of_kind in changes.items():
        results = await _change(context, kind, [*of_kind.values()], validate_only=validate_only)
        outcomes |= zip(of_kind, results, strict=True)
    answers: list[A] = []
    for index, resource in enumerate(resources):
        outcome = outcomes[index]
        if outcome is not None:
            context.warn(f"refusing to configure {resource.resource_name!r} for", outcome)
        answers.append(
            answer(
                error_code=error_code(outcome) if outcome else 0,
                error_message=context.error_message(outcome) if outcome else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
        await pace.turn()
    return answers


def _check_resource(resource: Resource, times: int) -> None:
    """Raise why a resource is refused, whatever the change is."""
    if times > 1:
        raise InvalidRequest("Each resource must appear at most once.")
    if len(resource.configs) > MAX_CHANGES_PER_RESOURCE:
        raise InvalidRequest(
            f"{len(resource.configs)} changes of a resource are more than {MAX_CHANGES_PER_RESOURCE}"
        )
    if resource.resource_type == TOPIC_RESOURCE:
        if not resource.resource_name:
            raise InvalidRequest("a topic without a name has no configuration")
        check_topic_name(resource.resource_name)


async def _change(
    context: RequestContext, kind: int, changes: Sequence[tuple[str, Alter]], *, validate_only: bool
) -> Sequence[BrokerError | None]:
    """Change the configurations of resources of one kind; for each return why it was refused."""
    broker = context.broker
    if kind == TOPIC_RESOURCE:
        return await broker.controller.alter_topic_configs(changes, validate_only=validate_only)
    if kind in SCOPES:
        return await broker.controller.alter_resource_configs(
            SCOPES[kind], changes, validate_only=validate_only
        )
    results: list[BrokerError | None] = []
    for name, alter in changes:
        try:
            if kind == BROKER_RESOURCE:
                await broker.controller.alter_broker_config(
                    node_named(context, name), alter, validate_only=validate_only
                )
            elif kind == BROKER_LOGGER_RESOURCE:
                check_logger_node(context, name)
                broker.loggers.alter(alter, validate_only=validate_only)
            else:
                raise InvalidRequest(f"Unknown resource type {kind}")
        except BrokerError as error:
            results.append(error)
        else:
            results.append(None)
    return results


def node_named(context: RequestContext, name: str) -> int | None:
    """Return the node that a resource names, None for the default of all brokers.

    Raises:
        InvalidRequest: it names another broker.
    """
    node_id = context.broker.cluster.node_id
    if name not in ("", str(node_id)):
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name!r}")
    return node_id if name else None


def check_logger_node(context: RequestContext, name: str) -> None:
    """Check that the loggers of this broker are meant.

    Raises:
        InvalidRequest: they are not.
    """
    if node_named(context, name) is None:
        raise InvalidRequest("Broker id must not be empty")


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
