"""Changes of a configuration that is in force: single keys set, deleted, or lists added to and taken from.

Source: KIP-339. A configuration is here what its owner sets, by name, as text in Kafka's notation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import attrs

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import split_list
from tidelog.kernel.errors import InvalidConfig, InvalidRequest


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


Alter = Callable[[Mapping[str, str]], dict[str, str]]
"""From the settings that are there to those that are to be."""


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
