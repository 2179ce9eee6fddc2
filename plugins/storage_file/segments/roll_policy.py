"""When a segment is full: by size, by age, by its indexes, or because an offset no longer fits.

An append looks only at three limits that are worked out beforehand; they are set so that it
never misses a reason to roll. Only when one of them is passed are the exact rules asked.
Source: seed 002, "Segment rolling".
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.indexes import TIME_ENTRY_BYTES

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.log_config import LogConfig

ALWAYS = -1
"""A limit that everything passes."""


class RollPolicy(NamedTuple):
    """The part of a topic's configuration that decides about rolling; bytes and milliseconds.

    `index_entries`: entries of an index beyond which an append has to look at everything; whether it is full
    only the index tells.
    """

    segment_bytes: int
    segment_ms: int
    jitter_ms: int
    index_entries: int = LONG_MAX

    @classmethod
    def of(cls, config: LogConfig) -> RollPolicy:
        """The policy of a topic, with a jitter of its own drawn for one segment."""
        limit = min(config.segment_jitter_ms, config.segment_ms)
        # Spreads load; nothing has to be unpredictable.
        jitter = random.randrange(limit) if limit > 0 else 0
        return cls(config.segment_bytes, config.segment_ms, jitter)

    def outlived(self, waited_ms: int) -> bool:
        """Whether a segment that waited that long has to roll."""
        return waited_ms > self.segment_ms - self.jitter_ms

    def roll_after(self, first_timestamp: int) -> int:
        """The largest timestamp that does not make a segment roll whose first batch has `first_timestamp`.

        Without a timestamp the segment's age by the clock counts, so the exact rule is asked each time.
        """
        return ALWAYS - 1 if first_timestamp < 0 else first_timestamp + self.segment_ms - self.jitter_ms

    def half(self, index_bytes: int) -> RollPolicy:
        """Half of every limit, for indexes of up to `index_bytes`: beyond one a roll is not far."""
        entries = index_bytes // TIME_ENTRY_BYTES // 2
        return RollPolicy(self.segment_bytes // 2, self.segment_ms // 2, self.jitter_ms // 2, entries)
