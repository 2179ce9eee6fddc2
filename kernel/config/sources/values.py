"""Structured values (of TOML, of a program) turned into settings with dotted names and text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import cast

from tidelog.kernel.config.listeners import Listener
from tidelog.kernel.config.sources.layers import Origin, Setting
from tidelog.kernel.config.types import Password


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
        if isinstance(value, Mapping):
            yield from _leaves(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            yield prefix + name, value


def value_text(value: object) -> str:
    """A value in Kafka's notation.

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
