"""What a line of the table is: a figure with a name, a unit, a direction and perhaps targets."""

from __future__ import annotations

from enum import Enum

import attrs


class Better(Enum):
    """Which way a figure improves."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class TargetKind(Enum):
    """What a target compares, and with which bound."""

    RATIO_AT_LEAST = "ratio at least"
    RATIO_AT_MOST = "ratio at most"
    VALUE_AT_LEAST = "value at least"
    VALUE_AT_MOST = "value at most"


_OF_VALUES = (TargetKind.VALUE_AT_LEAST, TargetKind.VALUE_AT_MOST)


@attrs.frozen
class Target:
    """A bound on tidelog's median, or on its ratio to Apache Kafka's."""

    kind: TargetKind
    bound: float

    def is_met(self, value: float | None, ratio: float | None) -> bool | None:
        """Whether tidelog's median or its ratio keeps the bound; None when that was not measured."""
        figure = value if self.kind in _OF_VALUES else ratio
        if figure is None:
            return None
        return figure >= self.bound if self._is_least else figure <= self.bound

    @property
    def _is_least(self) -> bool:
        return self.kind in (TargetKind.RATIO_AT_LEAST, TargetKind.VALUE_AT_LEAST)

    def __str__(self) -> str:
        sign = "≥" if self._is_least else "≤"
        times = "" if self.kind in _OF_VALUES else "×"
        return f"{sign} {self.bound:g}{times}"


def ratio_at_least(bound: float) -> Target:
    """tidelog / Apache Kafka ≥ bound."""
    return Target(TargetKind.RATIO_AT_LEAST, bound)


def ratio_at_most(bound: float) -> Target:
    """tidelog / Apache Kafka ≤ bound."""
    return Target(TargetKind.RATIO_AT_MOST, bound)


def value_at_least(bound: float) -> Target:
    """tidelog's figure ≥ bound, in the row's unit."""
    return Target(TargetKind.VALUE_AT_LEAST, bound)


def value_at_most(bound: float) -> Target:
    """tidelog's figure ≤ bound, in the row's unit."""
    return Target(TargetKind.VALUE_AT_MOST, bound)


@attrs.frozen
class Row:
    """`name` is for scripts and `--only`, `title` for people.

    `limit` names the row whose figure is as far as this machine goes; this one is shown as a share of it.
    `packages` are measured beside tidelog in the place of Apache Kafka; the ratio is to the best of them.
    """

    name: str
    title: str
    unit: str
    better: Better
    targets: tuple[Target, ...] = ()
    limit: str | None = None
    packages: tuple[str, ...] = ()


@attrs.frozen
class Sample:
    """One measured figure of one row, with whatever explains it (plain values only)."""

    row: str
    value: float
    details: dict[str, object] = attrs.field(factory=dict[str, object])
