"""Figures as text: three digits that count, never more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.summaries import Summary

_DIGITS = 3
MISSING = "–"


def figure(value: float) -> str:
    """Three significant digits, thousands separated: 0.123, 12.3, 1,230."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{_DIGITS}g}")
    decimals = _DIGITS - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}"


def spread(summary: Summary | None) -> str:
    """The median, and where repeats differ their least and most."""
    if summary is None:
        return MISSING
    if summary.least == summary.most:
        return figure(summary.median)
    return f"{figure(summary.median)} ({figure(summary.least)}–{figure(summary.most)})"


def multiple(ratio: float | None) -> str:
    """A ratio to two decimals."""
    return MISSING if ratio is None else f"{ratio:.2f}×"


def share(part: float | None) -> str:
    """A share in whole per cents."""
    return MISSING if part is None else f"{part:.0%}"
