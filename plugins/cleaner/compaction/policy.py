"""Compaction of logs: `cleanup.policy` = `compact`.

A log has a part that was compacted, a part that can be, and a part that cannot yet:

    log start ... first dirty offset ... first uncleanable offset ... log end

Source: Apache Kafka's `LogCleanerManager` and `LogToClean`.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.cleanup import LogView, Plan, Rewrite
from tidelog.kernel.seams.storage.keys import MAX_COMPACTION_LAG_MS
from tidelog.plugins.cleaner import keys
from tidelog.plugins.cleaner.compaction.keep_newest import KeepNewest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.seams.cleanup import RecordFilter
    from tidelog.kernel.seams.storage import SegmentView


class CompactionPolicy:
    """`CleanupPolicy` that keeps the newest record of each key."""

    name = "compact"

    def interval_ms(self, config: Config) -> int:
        """Return how often all logs are looked at, in milliseconds; 0 if nothing is to be compacted."""
        return max(config[keys.LOG_CLEANER_BACKOFF_MS], 1) if config[keys.LOG_CLEANER_ENABLE] else 0

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """Return what is to be compacted now, and segments below the log start, which a crash may leave."""
        plan = self._rewriting(log, now_ms, config)
        below = [each.base_offset for each in log.segments[1:] if each.base_offset <= log.log_start_offset]
        return attrs.evolve(plan, delete_before=below[-1], reason="below the log start") if below else plan

    def _rewriting(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        dirt = Dirt(log, now_ms, config[keys.MIN_COMPACTION_LAG_MS])
        max_lag_ms = config[MAX_COMPACTION_LAG_MS]
        is_dirty = dirt.ratio > config[keys.MIN_CLEANABLE_DIRTY_RATIO]
        # This reads the log, so only where the ratio has not decided.
        waits_since_ms = dirt.waits_since_ms() if max_lag_ms < LONG_MAX and not is_dirty else LONG_MAX
        if not dirt.cleanable_bytes or not (is_dirty or waits_since_ms < now_ms - max_lag_ms):
            waits_until_ms = waits_since_ms + max_lag_ms + 1 if waits_since_ms < LONG_MAX else LONG_MAX
            return Plan(not_before_ms=min(waits_until_ms, dirt.grows_at_ms, LONG_MAX))
        rewrite = Rewrite(
            dirt.until,
            urgency=dirt.ratio,
            survey_from=dirt.first_offset,
            make_filter=partial(_keep_newest, now_ms, dirt.until - dirt.first_offset),
            delete_retention_ms=config[keys.DELETE_RETENTION_MS],
        )
        return Plan(rewrite=rewrite)


class Dirt:
    """The part of a log that can be compacted: from `first_offset` to `until`.

    `clean_bytes` are those before it, `cleanable_bytes` its own. While the log stays as it is, the part grows
    at `grows_at_ms` and not before: then the records behind it are older than `min_lag_ms`.
    """

    def __init__(self, log: LogView, now_ms: int, min_lag_ms: int) -> None:
        self._log = log
        rewritten = log.rewritten_until
        self.first_offset = (
            log.log_start_offset if rewritten is None else max(rewritten, log.log_start_offset)
        )
        self.grows_at_ms = LONG_MAX
        self.until = self._first_uncleanable(now_ms, min_lag_ms)
        segments = self._dirty_segments()
        self.clean_bytes = sum(
            segment.size_bytes for segment in log.segments if segment.base_offset < self.first_offset
        )
        self.cleanable_bytes = sum(segment.size_bytes for segment in segments)

    def _first_uncleanable(self, now_ms: int, min_lag_ms: int) -> int:
        """Return where what cannot be compacted begins: always at the begin of a segment.

        Neither in the active segment, nor where a transaction may still be aborted, nor in a segment with
        records that are younger than `min_lag_ms`.
        """
        log = self._log
        decided = min(log.last_stable_offset, log.high_watermark)
        until = log.segments[0].base_offset
        for segment, following in pairwise(log.segments):
            if following.base_offset > decided:
                break
            is_dirty = following.base_offset > self.first_offset
            if is_dirty and min_lag_ms and segment.age_timestamp > now_ms - min_lag_ms:
                self.grows_at_ms = segment.age_timestamp + min_lag_ms
                break
            until = following.base_offset
        return until

    def _dirty_segments(self) -> Sequence[SegmentView]:
        """Return the segments that hold some of the part."""
        return [
            segment
            for segment, following in pairwise(self._log.segments)
            if following.base_offset > self.first_offset and segment.base_offset < self.until
        ]

    @property
    def ratio(self) -> float:
        """The share of it in what was and can be compacted, 0 to 1."""
        whole = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / whole if whole else 0

    def waits_since_ms(self) -> int:
        """Blocking: return the timestamp of the oldest first record of its segments, or the largest number.

        Segments without a timestamp do not count, as in Apache Kafka.
        """
        first = [self._log.first_timestamp(segment) for segment in self._dirty_segments()]
        return min([each for each in first if each > 0], default=LONG_MAX)


def _keep_newest(now_ms: int, most_keys: int, config: Config) -> RecordFilter:
    threads = max(config[keys.LOG_CLEANER_THREADS], 1)
    return KeepNewest(
        now_ms,
        config[keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads,
        config[keys.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
        most_keys,
    )
