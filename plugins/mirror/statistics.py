"""What a mirror does: its state, lag, rates and errors, for `tidelog mirrors` and the progress bar."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import attrs

from tidelog.kernel.topic_partition import TopicPartition

CONNECTING: Final = "connecting"
COPYING: Final = "copying"
FAILED: Final = "failed"
STOPPED: Final = "stopped"

_RATE_S: Final = 10.0
"""Rates are of so many seconds."""


@attrs.define
class MirrorStatistics:
    """Figures since the start of the process; only committed records count.

    Attributes:
        name: of the mirror
        source: bootstrap servers of the source
        state: `connecting`, `copying`, `failed` (it is tried again later) or `stopped`
        topics: that are copied
        partitions: that are copied
        records: copied
        batches: copied
        copied_bytes: of these batches
        transactions: committed
        groups: committed offsets of groups
        lost: offsets that the source had deleted before they were copied
        truncated: offsets that the source has lost after they were copied
        failures: of the mirror as a whole
        last_error: of the mirror as a whole
        problems: of single topics, partitions and groups, by their names
    """

    name: str
    source: str
    state: str = CONNECTING
    topics: int = 0
    partitions: int = 0
    records: int = 0
    batches: int = 0
    copied_bytes: int = 0
    transactions: int = 0
    groups: int = 0
    lost: int = 0
    truncated: int = 0
    failures: int = 0
    last_error: str = ""
    problems: dict[str, str] = attrs.field(factory=dict[str, str])
    _lags: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int], init=False)
    _commits: deque[tuple[float, int, int]] = attrs.field(factory=deque[tuple[float, int, int]], init=False)

    @property
    def lag(self) -> int:
        """How many offsets of the source are not committed at the target."""
        return sum(self._lags.values())

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        """Note how far a partition is behind."""
        self._lags[partition] = max(0, lag)

    def forget_lags(self, kept: set[TopicPartition]) -> None:
        """Drop the lag of partitions that are not copied any more."""
        for partition in self._lags.keys() - kept:
            del self._lags[partition]

    def committed(self, now: float, records: int, batches: int, copied_bytes: int) -> None:
        """Count a committed transaction."""
        self.transactions += 1
        self.records += records
        self.batches += batches
        self.copied_bytes += copied_bytes
        self._commits.append((now, records, copied_bytes))

    def rates(self, now: float) -> tuple[float, float]:
        """Return records and bytes per second, of the last seconds."""
        while self._commits and self._commits[0][0] < now - _RATE_S:
            self._commits.popleft()
        records = sum(each[1] for each in self._commits)
        return records / _RATE_S, sum(each[2] for each in self._commits) / _RATE_S

    def as_json(self, now: float) -> dict[str, Any]:
        """Return all figures."""
        records_s, bytes_s = self.rates(now)
        public = attrs.asdict(self, filter=lambda field, _: not field.name.startswith("_"))
        return {**public, "lag": self.lag, "records_per_s": records_s, "bytes_per_s": bytes_s}
