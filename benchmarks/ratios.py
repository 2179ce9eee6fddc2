"""tidelog's figures as multiples of a peer's: what neighbouring slices say, and how sure that is.

The interval is that of Wilcoxon's signed-rank test with the estimate of Hodges and Lehmann (Hollander, Wolfe,
Chicken: Nonparametric Statistical Methods, chapter 3) for the logarithms of the ratios of pairs. It is exact
for small numbers of pairs, needs no normal distribution, and one slice in which the machine was taken away
moves it little.
"""

from __future__ import annotations

import math
import statistics
from itertools import combinations_with_replacement, zip_longest
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
LEAST_PAIRS = 6
"""Of fewer random signs all are the same in more than 5 % of all cases: there is no interval."""


@attrs.frozen
class Interval:
    """Where the ratio lies with a probability of 95 %."""

    low: float
    high: float


@attrs.frozen
class Ratio:
    """`ours` in multiples of `theirs`; no interval where there are too few pairs for one."""

    value: float
    pairs: int
    interval: Interval | None = None

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
        """Compare slices that were measured one after the other, the first with the first and so on.

        A slice too many on one side has no neighbour and does not count. None without a pair, and for
        figures that are not above 0, which are multiples of nothing.
        """
        pairs = list(zip(ours, theirs, strict=False))
        if not pairs or min(map(min, pairs)) <= 0:
            return None
        logarithms = [math.log(our) - math.log(their) for our, their in pairs]
        averages = sorted((a + b) / 2 for a, b in combinations_with_replacement(logarithms, 2))
        rank = _rank_of_low_end(len(pairs))
        interval = (
            Interval(math.exp(averages[rank - 1]), math.exp(averages[len(averages) - rank])) if rank else None
        )
        return cls(math.exp(statistics.median(averages)), len(pairs), interval)


def _rank_of_low_end(count: int) -> int:
    """Which of the averages of two, in order, is the low end of the interval; 0 when there is none.

    It is the greatest rank that a sum of the ranks of `count` random signs is below in at most 2.5 % of all
    cases.
    """
    ways = [1]
    for rank in range(1, count + 1):
        ways = [sum(both) for both in zip_longest(ways, [0] * rank + ways, fillvalue=0)]
    allowed = (1 - CONFIDENCE) / 2 * 2**count
    below = low_end = 0
    for number in ways:
        below += number
        if below > allowed:
            break
        low_end += 1
    return low_end
