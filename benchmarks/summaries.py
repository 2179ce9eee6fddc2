"""Many samples in few figures."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank).

    Raises ValueError without values or outside of 0 < percent ≤ 100.
    """
    if not values:
        raise ValueError("no values, hence no percentile")
    if not 0 < percent <= 100:
        raise ValueError(f"{percent} is not a percentile")
    # Rounded first, lest 99.9 % of 1,000 become 999.0000000000001.
    rank = math.ceil(round(len(values) * percent / 100, 6))
    return sorted(values)[rank - 1]


@attrs.frozen
class Summary:
    """The middle of the slices and how far they lie apart."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Raises ValueError without values."""
        if not values:
            raise ValueError("no values, hence no summary")
        return cls(statistics.median(values), min(values), max(values))
