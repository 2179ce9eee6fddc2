"""Configuration values of the logs of a topic's partitions, and the limits at which a segment rolls."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.indexes import TIME_ENTRY_BYTES
from tidelog.kernel.seams.storage.keys import SEGMENT_BYTES, SEGMENT_INDEX_BYTES, max_segment_ms
from tidelog.plugins.storage_file import keys

# Not the generator of the process: a program that has a broker or a client may have seeded that one.
_random = random.SystemRandom()

ALWAYS = -1
"""Limit that is never reached."""


@attrs.frozen
class LogConfig:
    """Values that appends, rolling and deletion use, looked up once at each change; `topic_values` has all.

    Source: Apache Kafka's class of this name.
    """

    topic_values: Mapping[str, object]
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    file_delete_delay_ms: int
    preallocate: bool

    @classmethod
    def of(cls, config: TopicConfig) -> LogConfig:
        """Return the values for a topic with this configuration."""
        return cls(
            config.values,
            config[SEGMENT_BYTES],
            max_segment_ms(config),
            config[keys.SEGMENT_JITTER_MS],
            config[SEGMENT_INDEX_BYTES],
            config[keys.INDEX_INTERVAL_BYTES],
            config[keys.FILE_DELETE_DELAY_MS],
            config[keys.PREALLOCATE],
        )


class RollPolicy(NamedTuple):
    """The limits of one segment, in bytes and milliseconds; a batch that would pass one rolls the log.

    An append on the fast path compares with three numbers that are computed from them beforehand, and that
    never miss a reason to roll; `Segment.should_roll` has the exact rules. `index_entries`: entries of an
    index beyond which an append takes the slow path; whether it is full only the index knows. Source: the
    topic configurations `segment.bytes`, `segment.ms`, `segment.jitter.ms` and `max.compaction.lag.ms`.
    """

    segment_bytes: int
    segment_ms: int
    jitter_ms: int
    index_entries: int = LONG_MAX

    @classmethod
    def of(cls, config: LogConfig) -> RollPolicy:
        """Return the limits of a topic, with a jitter of its own drawn for one segment."""
        limit = min(config.segment_jitter_ms, config.segment_ms)
        # Spreads load; nothing has to be unpredictable.
        jitter = _random.randrange(limit) if limit > 0 else 0
        return cls(config.segment_bytes, config.segment_ms, jitter)

    def outlived(self, waited_ms: int) -> bool:
        """Return whether a segment of that age has to roll."""
        return waited_ms > self.segment_ms - self.jitter_ms

    def roll_after(self, first_timestamp: int) -> int:
        """Return the largest timestamp for a segment whose first batch has `first_timestamp`.

        Without a timestamp the segment's age by the clock counts, so that every append takes the slow path.
        """
        # Below -1, the timestamp of a batch that has none: that one exceeds the limit, too.
        return ALWAYS - 1 if first_timestamp < 0 else first_timestamp + self.segment_ms - self.jitter_ms

    def half(self, index_bytes: int) -> RollPolicy:
        """Return half of every limit, for indexes of up to `index_bytes`: beyond one a roll is not far."""
        entries = index_bytes // TIME_ENTRY_BYTES // 2
        return RollPolicy(self.segment_bytes // 2, self.segment_ms // 2, self.jitter_ms // 2, entries)
