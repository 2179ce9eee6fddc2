"""Settings as text in Kafka's notation, with where they came from, in layers of strength."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Final, NamedTuple, TypeAlias, cast

from tidelog.kernel.config.listeners import Listener
from tidelog.kernel.config.types import Password

SINKS: Final = "sinks"
"""Settings of sinks begin with this name: `sinks.KIND.NAME.KEY`."""


class OriginKind(Enum):
    """The kinds of places that a value can come from, strongest first."""

    DYNAMIC_BROKER = "set while running, for this broker"
    DYNAMIC_CLUSTER = "set while running, for all brokers"
    CODE = "code"
    COMMAND_LINE = "--set"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Origin(NamedTuple):
    """Where a value comes from; `detail` is `name:line` of a file, or an environment variable."""

    kind: OriginKind
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or self.kind.value


DEFAULT_ORIGIN = Origin(OriginKind.DEFAULT)


class Setting(NamedTuple):
    """One `name = text` and where it stands."""

    name: str
    text: str
    origin: Origin


Layer: TypeAlias = tuple[Setting, ...]


class Sources(NamedTuple):
    """All settings: `layers` from the strongest to the weakest, and what was wrong already in reading them.

    Settings of the environment are kept by variable: which key a variable means is known with the keys.
    """

    layers: tuple[Layer, ...] = ()
    problems: tuple[str, ...] = ()

    def over(self, layer: Layer, problems: tuple[str, ...] = ()) -> Sources:
        """Return the same with a stronger layer on top."""
        return Sources((layer, *self.layers), self.problems + problems)


def flatten(
    values: Mapping[str, object],
    origin_of: Callable[[str], Origin],
    settings: list[Setting],
    problems: list[str],
) -> None:
    """Add a setting per leaf of `values` to `settings`, and what cannot be a setting to `problems`."""
    for name, value in _leaves(values, ""):
        origin = origin_of(name)
        try:
            settings.append(Setting(name, value_text(value), origin))
        except ValueError as error:
            problems.append(f"{name} ({origin}): {error}")


def _leaves(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and (value or not (prefix + name).startswith(f"{SINKS}.")):
            yield from _leaves(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            # The empty table of a sink is a setting, so that it is refused and not ignored.
            yield prefix + name, None if isinstance(value, Mapping) else value


def value_text(value: object) -> str:
    """Return a value in Kafka's notation.

    Raises:
        ValueError: values of this type are no settings.
    """
    if isinstance(value, list | tuple):
        return ",".join(_item_text(item) for item in cast("Sequence[object]", value))
    return _scalar_text(value)


def _item_text(item: object) -> str:
    text = _scalar_text(item)
    if "," in text:
        raise ValueError(f"the list item {text!r} holds a comma, which separates items")
    return text


def _scalar_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Password):
        return value.value
    if isinstance(value, str | int | float | PurePath | Listener):
        return str(value)
    raise ValueError(f"a {type(value).__name__} is no value of a setting")
