"""Clients before Kafka 0.11: what converting their messages costs them, and others beside them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.load.acknowledge import LatencySpec
from benchmarks.load.loads import ACKNOWLEDGE, OLD_FETCH, OLD_PRODUCE
from benchmarks.load.old_clients import BATCHES, MESSAGE_SETS, OldClientSpec
from benchmarks.load.process import run_load
from benchmarks.rows import Better, Row, Sample, value_at_least, value_at_most
from benchmarks.summaries import percentile
from benchmarks.topics import create_topics

from .context import Bench, RunningBroker, started_broker, usage_details
from .latency import VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind
    from benchmarks.load.old_clients import OldClientResult
    from benchmarks.load.process import Load

_BATCH_BYTES = 16_384
_CODECS = {"none": 0, "gzip": 1}
_FETCHED_BYTES = 12_000_000
_BESIDE_BYTES_PER_S = 4_000_000
"""What the old client moves while others are measured: their broker has time to spare."""
_FETCH_MESSAGES = 3


@attrs.frozen
class UpConversion:
    """How fast records come in as messages of format 1, compared with the same ones as record batches."""

    codec: str

    @property
    def name(self) -> str:
        return f"up-conversion-{self.codec}"

    @property
    def rows(self) -> Sequence[Row]:
        title = f"produce of messages of format 1, {self.codec}, in the speed of record batches"
        return [Row(self.name, title, "×", Better.HIGHER, (value_at_least(0.3),))]

    def applies_to(self, kind: BrokerKind) -> bool:
        """Apache Kafka 4 has no clients that old."""
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        with started_broker(kind, work_dir) as broker:
            create_topics(broker.admin, {"batches": 1, "sets": 1})
            rates: dict[str, float] = {}
            details: dict[str, object] = {}
            for topic, version in (("batches", BATCHES), ("sets", MESSAGE_SETS)) * bench.effort.rounds:
                seconds, codec = bench.effort.seconds, _CODECS[self.codec]
                spec = _spec(broker, topic, version, seconds, codec=codec)
                found = run_load(OLD_PRODUCE, spec, bench.load_timeout_s)
                rates[topic] = found.records / found.usage.wall_s
                details[f"{topic}_records_per_s"] = rates[topic]
                details[topic] = usage_details(found.usage)
        return [Sample(self.name, rates["sets"] / rates["batches"], details)]


@attrs.frozen
class Beside:
    """How long a producer waits beside an old client, compared with the same traffic without conversion."""

    name: str
    title: str
    load: Load[OldClientSpec, OldClientResult]
    old_version: int

    @property
    def rows(self) -> Sequence[Row]:
        title = f"acknowledge p99 at a fixed rate beside {self.title}, in p99 beside one of record batches"
        return [Row(self.name, title, "×", Better.LOWER, (value_at_most(1.5),))]

    def applies_to(self, kind: BrokerKind) -> bool:
        """Apache Kafka 4 has no clients that old."""
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        with started_broker(kind, work_dir) as broker:
            create_topics(broker.admin, {"beside": 1, "moved": 1})
            fill = _spec(broker, "moved", BATCHES, bench.load_timeout_s, most_bytes=_FETCHED_BYTES)
            run_load(OLD_PRODUCE, fill, bench.load_timeout_s)
            p99s = {"alone": self._p99(bench, broker, None)}
            for name, version in (
                ("batches", BATCHES),
                ("converted", self.old_version),
            ) * bench.effort.rounds:
                p99s[name] = self._p99(bench, broker, version)
        return [Sample(self.name, p99s["converted"] / p99s["batches"], {**p99s})]

    def _p99(self, bench: Bench, broker: RunningBroker, version: int | None) -> float:
        """Return the p99 in microseconds, beside the load in that version unless it is None."""
        effort = bench.effort
        server = broker.server
        spec = LatencySpec(
            server.bootstrap, server.pid, "beside", VALUE_BYTES, effort.rate_records, effort.rate_per_s
        )
        if version is None:
            return percentile(run_load(ACKNOWLEDGE, spec, bench.load_timeout_s).latencies_us, 99.0)
        # The load is there all the time.
        seconds = effort.rate_records / effort.rate_per_s + effort.start_s
        moved = _spec(broker, "moved", version, seconds, bytes_per_second=_BESIDE_BYTES_PER_S)
        with ThreadPoolExecutor(1) as beside:
            load = beside.submit(run_load, self.load, moved, bench.load_timeout_s)
            p99 = percentile(run_load(ACKNOWLEDGE, spec, bench.load_timeout_s).latencies_us, 99.0)
            load.result()
        return p99


def _spec(
    broker: RunningBroker,
    topic: str,
    version: int,
    seconds: float,
    *,
    codec: int = 0,
    bytes_per_second: float = 0,
    most_bytes: int = 0,
) -> OldClientSpec:
    server = broker.server
    return OldClientSpec(
        bootstrap=server.bootstrap,
        broker_pid=server.pid,
        topic=topic,
        value_bytes=VALUE_BYTES,
        batch_bytes=_BATCH_BYTES,
        version=version,
        codec=codec,
        seconds=seconds,
        bytes_per_second=bytes_per_second,
        most_bytes=most_bytes,
    )


def old_clients() -> list[UpConversion | Beside]:
    """Produce with each codec, and others beside a producer and a consumer."""
    return [
        *map(UpConversion, _CODECS),
        Beside("up-conversion-beside", "a producer of messages of format 1", OLD_PRODUCE, MESSAGE_SETS),
        Beside("down-conversion-beside", "a consumer of messages of format 1", OLD_FETCH, _FETCH_MESSAGES),
    ]
