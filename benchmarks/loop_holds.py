"""How long tidelog's event loop was held, from what its monitor logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HOLD: Final = re.compile(r"the event loop was held for \d+ ms, (\d+) of them of CPU")
_LEFT_OUT: Final = re.compile(r"times more before, for up to \d+ ms, up to (\d+) of CPU")


class LoopHolds:
    """What a broker's log says from the construction on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._begin = log.stat().st_size

    def longest_cpu_ms(self) -> float:
        """The most processor time of one hold; 0 without any that is longer than `event.loop.stall.ms`."""
        with self._log.open("rb") as log:
            log.seek(self._begin)
            text = log.read().decode(errors="replace")
        return max(map(float, [*_HOLD.findall(text), *_LEFT_OUT.findall(text)]), default=0.0)
