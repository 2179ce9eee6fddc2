"""Compaction of a log with keys, and producers beside it."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import attrs
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from benchmarks.brokers import TIDELOG
from benchmarks.load.loads import PRODUCE
from benchmarks.load.produce import ProduceSpec
from benchmarks.procfs import peak_resident_bytes, process_tree
from benchmarks.rows import Better, Row, Sample, ratio_at_least, value_at_most
from benchmarks.topics import create_topics, delete_topic, topic_for_a_run

from .context import Bench, RunningBroker
from .latency import VALUE_BYTES, acknowledge_p99

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from benchmarks.brokers import BrokerKind

_BUFFER_MB = 134.2
"""`log.cleaner.dedupe.buffer.size` by default: 128 MiB."""
MEMORY = Row(
    "compaction-memory",
    "compaction: resident memory of its process at most",
    "MB",
    Better.LOWER,
    (value_at_most(_BUFFER_MB + 64),),
)
FULL_BUFFER_MEMORY = Row(
    "compaction-memory-full",
    "compaction: resident memory of its process beyond a dedupe buffer that is full, at most",
    "MB",
    Better.LOWER,
    (value_at_most(64 * 2**20 / 1e6),),
)
BESIDE = Row(
    "compaction-beside",
    "acknowledge p99 at a fixed rate beside a compaction, in p99 without",
    "×",
    Better.LOWER,
    (value_at_most(1.5),),
)

BESIDE_COUNTING = Row(
    "counting-beside",
    "acknowledge p99 at a fixed rate beside a process that only counts, in p99 without",
    "×",
    Better.LOWER,
    (),
)
_COUNT = (
    "from tidelog.plugins.cleaner.worker.scheduling import run_in_background as run; run()\nwhile True: pass"
)
"""A process scheduled as the one that compacts, which needs a processor and nothing else."""

_SMALL_BUFFER_BYTES = 8 * 2**20
"""Full with 315,000 keys: a log for the buffer by default would have five gigabytes."""
_SETTINGS = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "0"}
_BUFFER_KEY = "log.cleaner.dedupe.buffer.size"
_CHECKPOINT = "cleaner-offset-checkpoint"
_SEGMENTS = 8
_LEAST_SEGMENT_BYTES = 1_048_576
_BATCH_BYTES = 16_384
_RECORDS_PER_KEY = 10
_POLL_S = 0.01
_TIMEOUT_S = 300.0
_numbers = count(1)
# A log that is all dirty is not compacted yet.
_TOPIC = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}


@attrs.frozen
class Compaction:
    """How fast a log is compacted, that has ten records of each key and was never compacted before."""

    value_bytes: int
    target_ratio: float
    settings: Mapping[str, str] = _SETTINGS

    @property
    def name(self) -> str:
        return f"compaction-{_size(self.value_bytes)}"

    @property
    def rows(self) -> Sequence[Row]:
        title = f"compaction of a log with values of {_size(self.value_bytes)}"
        speed = Row(self.name, title, "MB/s", Better.HIGHER, (ratio_at_least(self.target_ratio),))
        return [speed, MEMORY] if self.value_bytes == VALUE_BYTES else [speed]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        with _keyed_log(bench, broker, self.value_bytes, _log_bytes(bench, self.value_bytes)) as log:
            seconds = log.compact()
        details: dict[str, object] = {"bytes": log.dirty_bytes, "seconds": seconds}
        speed = Sample(self.name, log.dirty_bytes / 1e6 / seconds, details)
        if broker.kind.key != TIDELOG or self.value_bytes != VALUE_BYTES:
            return [speed]
        return [speed, Sample(MEMORY.name, log.worker_bytes / 1e6)]


@attrs.frozen
class FullBuffer:
    """How much memory is taken beside the dedupe buffer, by a log with more keys than that takes."""

    name: str = attrs.field(default=FULL_BUFFER_MEMORY.name, init=False)
    rows: Sequence[Row] = attrs.field(default=(FULL_BUFFER_MEMORY,), init=False)
    settings: Mapping[str, str] = attrs.field(
        factory=lambda: {**_SETTINGS, _BUFFER_KEY: str(_SMALL_BUFFER_BYTES)}, init=False
    )

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        size = bench.effort.full_buffer_bytes
        with _keyed_log(bench, broker, VALUE_BYTES, size, records_per_key=1) as log:
            log.compact()
        return [Sample(self.name, (log.worker_bytes - _SMALL_BUFFER_BYTES) / 1e6)]


@attrs.frozen
class BesideCompaction:
    """How long a producer waits while a log is compacted, compared with before.

    The same beside a process that only counts tells what of it is the machine's part.
    """

    name: str = attrs.field(default=BESIDE.name, init=False)
    rows: Sequence[Row] = attrs.field(default=(BESIDE, BESIDE_COUNTING), init=False)
    settings: Mapping[str, str] = attrs.field(factory=lambda: _SETTINGS, init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        with (
            topic_for_a_run(broker.admin) as topic,
            # Small records take longest, and the compaction must not be over before the producer is.
            _keyed_log(bench, broker, 100, _log_bytes(bench, 100)) as log,
        ):
            p99 = partial(acknowledge_p99, bench, broker, topic, bench.effort.rate_slice_records)
            before = p99()
            with _counting():
                beside_counting = p99()
            log.begin_compaction()
            beside = p99()
            lasts = not log.is_compacted()
        details: dict[str, object] = {
            "before_us": before,
            "beside_us": beside,
            "compaction_lasted_longer": lasts,
        }
        return [
            Sample(BESIDE.name, beside / before, details),
            Sample(BESIDE_COUNTING.name, beside_counting / before),
        ]


@contextmanager
def _counting() -> Generator[None]:
    process = subprocess.Popen([sys.executable, "-c", _COUNT])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def compactions() -> list[Compaction | FullBuffer | BesideCompaction]:
    """With large and with small values, with too many keys, and beside a producer."""
    return [Compaction(VALUE_BYTES, 1.0), Compaction(100, 0.5), FullBuffer(), BesideCompaction()]


class _KeyedLog:
    """The only partition of a topic that is to be compacted, and all dirty."""

    def __init__(self, broker: RunningBroker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        directory = broker.server.data_dir / f"{topic}-0"
        *inactive, active = sorted(directory.glob("*.log"))
        self._until = int(active.stem)
        self.dirty_bytes = sum(file.stat().st_size for file in inactive)
        self.worker_bytes = 0
        """The most that a process which the broker started had resident."""

    def compact(self) -> float:
        """Have the log compacted; return the seconds until the broker has noted it.

        Raises TimeoutError when that takes longer than five minutes.
        """
        began = time.monotonic()
        self.begin_compaction()
        pid = self._broker.server.pid
        while not self.is_compacted():
            if time.monotonic() - began > _TIMEOUT_S:
                raise TimeoutError(f"{self._topic} was not compacted within {_TIMEOUT_S:g} s")
            started = process_tree(pid)[1:]
            self.worker_bytes = max([self.worker_bytes, *map(peak_resident_bytes, started)])
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def begin_compaction(self) -> None:
        """Let the broker compact the log; it looks every tenth of a second."""
        entry = ConfigEntry("min.cleanable.dirty.ratio", "0", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=[entry])
        self._broker.admin.incremental_alter_configs([resource])[resource].result()

    def is_compacted(self) -> bool:
        """Whether the broker has noted that all inactive segments are compacted."""
        try:
            lines = (self._broker.server.data_dir / _CHECKPOINT).read_text().splitlines()
        except FileNotFoundError:
            return False
        # The first two are the version and the number of the others: topic, partition, offset.
        noted = {topic: int(offset) for topic, _, offset in map(str.split, lines[2:])}
        return noted.get(self._topic, -1) >= self._until


@contextmanager
def _keyed_log(
    bench: Bench,
    broker: RunningBroker,
    value_bytes: int,
    value_bytes_in_all: int,
    records_per_key: int = _RECORDS_PER_KEY,
) -> Generator[_KeyedLog]:
    """A topic with records, so many of each key on average, which is deleted at the end."""
    topic = f"compacted-{next(_numbers)}"
    segment_bytes = max(value_bytes_in_all // _SEGMENTS, _LEAST_SEGMENT_BYTES)
    create_topics(broker.admin, {topic: 1}, {**_TOPIC, "segment.bytes": str(segment_bytes)})
    # The last segment stays active.
    values = value_bytes_in_all + segment_bytes
    spec = ProduceSpec(
        bootstrap=broker.server.bootstrap,
        broker_pid=broker.server.pid,
        topic=topic,
        partitions=1,
        value_bytes=value_bytes,
        batch_bytes=_BATCH_BYTES,
        compression="none",
        seconds=_TIMEOUT_S,
        most_bytes=values,
        keys=max(values // value_bytes // records_per_key, 1),
    )
    broker.loads.run(PRODUCE, spec, bench.load_timeout_s + _TIMEOUT_S)
    yield _KeyedLog(broker, topic)
    delete_topic(broker.admin, topic)


def _log_bytes(bench: Bench, value_bytes: int) -> int:
    """Small records take longer to write and to compact: half as much of them does."""
    return bench.effort.compacted_bytes // (1 if value_bytes == VALUE_BYTES else 2)


def _size(value_bytes: int) -> str:
    return "1KB" if value_bytes == VALUE_BYTES else f"{value_bytes}B"
