"""A fixed rate, kept by the clock and not by the answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def paced(count: int, per_second: float) -> Iterator[int]:
    """0 to `count` - 1, each at its time; a late one does not delay the ones after it."""
    start = time.perf_counter()
    for number in range(count):
        ahead = start + number / per_second - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        yield number
