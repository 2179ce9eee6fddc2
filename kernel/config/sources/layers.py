"""Settings as they came, with where they came from, in layers of strength."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias


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
        """The same with a stronger layer on top."""
        return Sources((layer, *self.layers), self.problems + problems)
