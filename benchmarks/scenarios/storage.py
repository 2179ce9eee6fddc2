"""The log storage alone, in a process without a broker: appending, opening, recovering, searching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.load.loads import APPEND_COST, LOOK_UP, OPEN_LOG, RECEIVE_APPEND, RECOVER
from benchmarks.load.machine_limit import MachineLimitSpec
from benchmarks.load.process import run_load
from benchmarks.load.segments import LookUpSpec, OpenSpec, RecoverSpec
from benchmarks.rows import Better, Row, Sample, value_at_most

from .context import usage_details
from .machine_limits import receive_limit
from .shapes import BARE_BATCH_SIZES, BATCH_SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind

    from .context import Bench

_SEGMENT_BYTES = 5_000_000
_COST_BATCH_BYTES = 16_384
_INDEX_FORMATS = {"sparse": "", "memory": "-memory-index"}
_PARALLEL_LOGS = 2
"""As many as threads open the logs of one directory (num.recovery.threads.per.data.dir)."""


@attrs.frozen
class PartitionAppend:
    """A partition in the place of the bare loop's check and write, with the same socket in front."""

    batch_bytes: int

    @property
    def name(self) -> str:
        return f"append-partition-{BATCH_SIZES[self.batch_bytes]}"

    @property
    def rows(self) -> Sequence[Row]:
        title = f"receive and append at a partition, {BATCH_SIZES[self.batch_bytes]} batches"
        return (Row(self.name, title, "MB/s", Better.HIGHER, limit=receive_limit(self.batch_bytes)),)

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        effort = bench.effort
        spec = MachineLimitSpec(str(work_dir), self.batch_bytes, effort.seconds, effort.most_bytes)
        result = run_load(RECEIVE_APPEND, spec, bench.load_timeout_s)
        rate = result.bytes / 1e6 / result.usage.wall_s
        return [Sample(self.name, rate, {"bytes": result.bytes, **usage_details(result.usage)})]


@attrs.frozen
class AppendCost:
    """What one append costs beside the CRC and the write that it cannot do without."""

    name: str = attrs.field(default="append-cost", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        return (
            Row("append-cost-16KB", "append of a 16 KB batch at a partition", "us", Better.LOWER),
            Row("append-cost-16KB-bare", "of which crc32c and write", "us", Better.NEITHER),
        )

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        effort = bench.effort
        spec = MachineLimitSpec(str(work_dir), _COST_BATCH_BYTES, effort.seconds, effort.most_bytes // 4)
        result = run_load(APPEND_COST, spec, bench.load_timeout_s)
        own, bare = self.rows
        return [
            Sample(own.name, result.microseconds, {"batch_bytes": result.batch_bytes}),
            Sample(bare.name, result.bare_microseconds),
        ]


@attrs.frozen
class OpenLog:
    """Open a log of many segments after a clean stop, and see what memory that takes."""

    segments: int
    index_format: str
    name: str = attrs.field(default="log-open", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        suffix = _INDEX_FORMATS[self.index_format]
        log = f"{self.segments * _SEGMENT_BYTES / 1e9:g} GB, {self.segments:,} segments"
        if suffix:
            log = f"{self.segments:,} segments of 64 KB, indexes in memory"
        bound = () if suffix else (value_at_most(1),)
        memory = () if suffix else (value_at_most(2),)
        return (
            Row(f"log-open{suffix}", f"open a log of {log}", "s", Better.LOWER, bound),
            Row(f"segment-memory{suffix}", "memory of each segment", "KB", Better.LOWER, memory),
        )

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        spec = OpenSpec(str(work_dir), self.segments, _SEGMENT_BYTES, self.index_format)
        result = run_load(OPEN_LOG, spec, bench.load_timeout_s)
        seconds, memory = self.rows
        return [
            Sample(seconds.name, result.seconds, {"log_bytes": result.log_bytes}),
            Sample(memory.name, result.bytes_per_segment / 1e3),
        ]


@attrs.frozen
class RecoverLogs:
    """Open logs that a crash left, from the page cache; every batch of them is checked."""

    logs: int
    log_bytes: int

    @property
    def name(self) -> str:
        return "log-recovery" if self.logs == 1 else "log-recovery-parallel"

    @property
    def rows(self) -> Sequence[Row]:
        logs = "a log" if self.logs == 1 else f"{self.logs} logs at once"
        title = f"recover {logs} of 16 KB batches, per GB"
        return (Row(self.name, title, "s", Better.LOWER, (value_at_most(1),)),)

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        spec = RecoverSpec(str(work_dir), self.logs, self.log_bytes // self.logs)
        result = run_load(RECOVER, spec, bench.load_timeout_s)
        return [Sample(self.name, result.seconds / result.bytes * 1e9, {"bytes": result.bytes})]


@attrs.frozen
class LookUp:
    """Look for offsets and timestamps at random, when all is in memory."""

    index_format: str
    log_bytes: int
    times: int
    name: str = attrs.field(default="look-up", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        suffix = _INDEX_FORMATS[self.index_format]
        how = ", indexes in memory" if suffix else ""
        target = (value_at_most(20),)
        return (
            Row(f"look-up-offset{suffix}", f"read at a random offset{how}", "us", Better.LOWER, target),
            Row(f"look-up-time{suffix}", f"find a random timestamp's batch{how}", "us", Better.LOWER),
        )

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        spec = LookUpSpec(str(work_dir), self.log_bytes, self.times, self.index_format)
        result = run_load(LOOK_UP, spec, bench.load_timeout_s)
        by_offset, by_time = self.rows
        return [Sample(by_offset.name, result.by_offset), Sample(by_time.name, result.by_time)]


def storage_scenarios(
    most_bytes: int, segments: int
) -> list[PartitionAppend | AppendCost | OpenLog | RecoverLogs | LookUp]:
    """All of them; logs are up to `most_bytes` long, one has so many segments."""
    return [
        *(PartitionAppend(size) for size in BARE_BATCH_SIZES),
        AppendCost(),
        *(OpenLog(segments, each) for each in _INDEX_FORMATS),
        RecoverLogs(1, most_bytes),
        RecoverLogs(_PARALLEL_LOGS, most_bytes),
        *(LookUp(each, most_bytes // 2, max(most_bytes // 80_000, 200)) for each in _INDEX_FORMATS),
    ]
