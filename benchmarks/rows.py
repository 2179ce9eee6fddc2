"""What a line of the table is: a figure with a name, a unit, a direction and perhaps targets."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.compiled import MODULES, is_compiled

if TYPE_CHECKING:
    from .ratios import Ratio

COMPILED = any(map(is_compiled, MODULES))
"""Whether this tidelog runs compiled modules: some targets are higher then."""


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


class Verdict(Enum):
    """What is known about a target."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"


_OF_VALUES = (TargetKind.VALUE_AT_LEAST, TargetKind.VALUE_AT_MOST)


@attrs.frozen
class Target:
    """A bound on tidelog's median, or on its ratio to that of Apache Kafka."""

    kind: TargetKind
    bound: float

    def verdict(self, value: float | None, ratio: Ratio | None) -> Verdict | None:
        """Whether tidelog's median, or the whole interval of its ratio, keeps the bound.

        None when that was not measured. A ratio without an interval decides nothing.
        """
        if self.kind in _OF_VALUES:
            return None if value is None else Verdict.MET if self._keeps(value) else Verdict.MISSED
        if ratio is None:
            return None
        if ratio.interval is None:
            return Verdict.UNDECIDED
        kept = {self._keeps(ratio.interval.low), self._keeps(ratio.interval.high)}
        return Verdict.UNDECIDED if len(kept) > 1 else Verdict.MET if kept.pop() else Verdict.MISSED

    def _keeps(self, figure: float) -> bool:
        return figure >= self.bound if self._is_least else figure <= self.bound

    @property
    def _is_least(self) -> bool:
        return self.kind in (TargetKind.RATIO_AT_LEAST, TargetKind.VALUE_AT_LEAST)

    def __str__(self) -> str:
        sign = "≥" if self._is_least else "≤"
        times = "" if self.kind in _OF_VALUES else "×"
        return f"{sign} {self.bound:g}{times}"


def ratio_at_least(bound: float, *, pure: float | None = None) -> Target:
    """tidelog / Apache Kafka ≥ bound; without compiled modules ≥ `pure`."""
    return Target(TargetKind.RATIO_AT_LEAST, bound if COMPILED or pure is None else pure)


def ratio_at_most(bound: float, *, pure: float | None = None) -> Target:
    """tidelog / Apache Kafka ≤ bound; without compiled modules ≤ `pure`."""
    return Target(TargetKind.RATIO_AT_MOST, bound if COMPILED or pure is None else pure)


def value_at_least(bound: float) -> Target:
    """tidelog's figure ≥ bound, in the row's unit."""
    return Target(TargetKind.VALUE_AT_LEAST, bound)


def value_at_most(bound: float, *, pure: float | None = None) -> Target:
    """tidelog's figure ≤ bound, in the row's unit; without compiled modules ≤ `pure`."""
    return Target(TargetKind.VALUE_AT_MOST, bound if COMPILED or pure is None else pure)


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


OTHER_SHARE = "other_share"
"""Among a sample's details: the share of the machine that other processes took meanwhile."""


@attrs.frozen
class Sample:
    """One measured figure of one row, with whatever explains it (plain values only)."""

    row: str
    value: float
    details: dict[str, object] = attrs.field(factory=dict[str, object])
