"""The broker's clock: wall time in milliseconds, replaceable in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""A function that gives milliseconds since the epoch."""


def wall_clock_ms() -> int:
    """Milliseconds since the epoch, by the machine's clock."""
    return time.time_ns() // 1_000_000
