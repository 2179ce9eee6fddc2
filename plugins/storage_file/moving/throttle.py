"""The rate limit of copying partitions between log directories.

Source: KIP-113, "Throttle".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from tidelog.kernel.config.types import LONG_MAX

LONGEST_SLEEP_SECONDS: Final = 0.5
"""After it a wait looks whether the limit has changed, or the move was cancelled."""


class Throttle:
    """Copying pauses after some bytes for as long as they may take at the present limit."""

    def __init__(self, bytes_per_second: Callable[[], int]) -> None:
        self._bytes_per_second = bytes_per_second
        self._copied = 0
        self._since = 0.0

    def bytes_at_once(self) -> float:
        """Return after how many bytes a copy has to wait again: without a limit there is no end."""
        rate = self._bytes_per_second()
        return math.inf if rate >= LONG_MAX else max(rate, 1)

    def add(self, copied: int) -> None:
        """Note that so many bytes were copied since the last `wait` ended."""
        self._copied = copied

    async def wait(self, wanted: Callable[[], bool]) -> None:
        """Wait until the bytes that were copied are within the limit, or `wanted()` is false."""
        while self._copied and wanted():
            rate = self._bytes_per_second()
            ready = self._since + (self._copied / rate if rate else math.inf)
            left = 0 if rate >= LONG_MAX else ready - trio.current_time()
            if left <= 0:
                break
            await trio.sleep(min(left, LONGEST_SLEEP_SECONDS))
        self._copied, self._since = 0, trio.current_time()
