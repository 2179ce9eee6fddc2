"""Figures as text: three digits that count, never more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.ratios import Ratio
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
    """The median, and where slices differ their least and most."""
    if summary is None:
        return MISSING
    if summary.least == summary.most:
        return figure(summary.median)
    return f"{figure(summary.median)} ({figure(summary.least)}–{figure(summary.most)})"


def multiple(ratio: Ratio | None) -> str:
    """A ratio to two decimals, and its interval."""
    if ratio is None:
        return MISSING
    if ratio.interval is None:
        return f"{ratio.value:.2f}×"
    return f"{ratio.value:.2f}× ({ratio.interval.low:.2f}–{ratio.interval.high:.2f})"


def share(part: float | None) -> str:
    """A share in whole per cents."""
    return MISSING if part is None else f"{part:.0%}"
