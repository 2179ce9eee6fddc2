"""The broker over TLS 1.3: batches in and out, the wait for an acknowledgement, and handshakes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from benchmarks.certificates import ca_file, tls_settings
from benchmarks.load.acknowledge import LatencySpec
from benchmarks.load.handshakes import HandshakesSpec, HandshakeStormSpec
from benchmarks.load.loads import ACKNOWLEDGE, HANDSHAKE_STORM, HANDSHAKES, RAW_FETCH, RAW_PRODUCE
from benchmarks.load.process import pausable_load
from benchmarks.load.raw_fetch import RawFetchSpec
from benchmarks.load.raw_produce import RawProduceSpec
from benchmarks.rows import Better, Row, Sample, ratio_at_least, ratio_at_most, value_at_most
from benchmarks.summaries import percentile
from benchmarks.topics import topic_for_a_run
from tests.peers import LOOPBACK

from .context import Bench, RunningBroker, usage_details
from .latency import VALUE_BYTES, acknowledge_p99
from .shapes import BARE_BATCH_SIZES, BATCH_SIZES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.brokers import BrokerKind, BrokerServer
    from benchmarks.procfs import Usage

ACKNOWLEDGE_P99 = "tls-acknowledge-p99"
HANDSHAKE_RATE, HANDSHAKE_CPU, BYSTANDER = "tls-handshakes", "tls-handshake-cpu", "tls-bystander"


@attrs.frozen
class TlsBatches:
    """Produce batches of one size, then fetch them, without a client library."""

    batch_bytes: int

    @property
    def name(self) -> str:
        return f"tls-{self._size}"

    @property
    def _size(self) -> str:
        return BATCH_SIZES[self.batch_bytes]

    @property
    def settings(self) -> Mapping[str, str]:
        return tls_settings()

    @property
    def rows(self) -> Sequence[Row]:
        least, title = (ratio_at_least(1.0),), f"{self._size} batches over TLS"
        return [
            Row(f"tls-produce-{self._size}", f"raw client: produce {title}", "MB/s", Better.HIGHER, least),
            Row(f"tls-fetch-{self._size}", f"raw client: fetch {title}", "MB/s", Better.HIGHER, least),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        server, effort, timeout_s = broker.server, bench.effort, bench.load_timeout_s
        with topic_for_a_run(broker.admin) as topic:
            to_produce = RawProduceSpec(
                tls_bootstrap(server),
                server.pid,
                topic,
                1,
                VALUE_BYTES,
                self.batch_bytes,
                effort.slice_s,
                effort.most_bytes,
                ca_file(),
            )
            produced = broker.loads.run(RAW_PRODUCE, to_produce, timeout_s)
            size = produced.bytes_per_batch
            to_fetch = RawFetchSpec(
                tls_bootstrap(server),
                server.pid,
                topic,
                1,
                produced.batches,
                size,
                produced.records_per_batch,
                effort.slice_s,
                ca_file(),
            )
            fetched = broker.loads.run(RAW_FETCH, to_fetch, timeout_s)
        return [
            _speed(f"tls-produce-{self._size}", produced.batches * size, produced.usage),
            _speed(f"tls-fetch-{self._size}", fetched.batches * size, fetched.usage),
        ]


@attrs.frozen
class TlsConnections:
    """What a client waits for over TLS, and what clients cost that do nothing but connect."""

    name: str = attrs.field(default="tls-connections", init=False)

    @property
    def settings(self) -> Mapping[str, str]:
        return tls_settings()

    @property
    def rows(self) -> Sequence[Row]:
        return [
            Row(
                ACKNOWLEDGE_P99,
                "acknowledge p99 over TLS, at a fixed rate",
                "µs",
                Better.LOWER,
                (ratio_at_most(1.0),),
            ),
            Row(HANDSHAKE_RATE, "handshakes, four clients", "/s", Better.HIGHER, (ratio_at_least(0.5),)),
            Row(HANDSHAKE_CPU, "broker CPU per handshake", "µs", Better.LOWER),
            Row(
                BYSTANDER,
                "acknowledge p99 of a plain client while others only connect, to that without them",
                "×",
                Better.LOWER,
                (value_at_most(2),),
            ),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        return [
            self._acknowledge(bench, broker),
            *self._handshakes(bench, broker),
            self._bystander(bench, broker),
        ]

    def _acknowledge(self, bench: Bench, broker: RunningBroker) -> Sample:
        server, effort = broker.server, bench.effort
        with topic_for_a_run(broker.admin) as topic:
            spec = LatencySpec(
                tls_bootstrap(server),
                server.pid,
                topic,
                VALUE_BYTES,
                effort.rate_slice_records,
                effort.rate_per_s,
                ca_file(),
            )
            result = broker.loads.run(ACKNOWLEDGE, spec, bench.load_timeout_s)
        return Sample(ACKNOWLEDGE_P99, percentile(result.latencies_us, 99.0), usage_details(result.usage))

    def _handshakes(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        server = broker.server
        spec = HandshakesSpec(tls_bootstrap(server), server.pid, ca_file(), bench.effort.slice_s)
        result = broker.loads.run(HANDSHAKES, spec, bench.load_timeout_s)
        usage, count = result.usage, max(result.handshakes, 1)
        details = {"handshakes": result.handshakes, **usage_details(usage)}
        return [
            Sample(HANDSHAKE_RATE, result.handshakes / usage.wall_s, details),
            Sample(HANDSHAKE_CPU, usage.broker_cpu_s * 1e6 / count, details),
        ]

    def _bystander(self, bench: Bench, broker: RunningBroker) -> Sample:
        server, records = broker.server, bench.effort.rate_slice_records
        with topic_for_a_run(broker.admin) as topic, tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            alone_us = acknowledge_p99(bench, broker, topic, records)
            warm_file = Path(folder, "warm")
            storm = HandshakeStormSpec(tls_bootstrap(server), server.pid, ca_file(), str(warm_file))
            with pausable_load(HANDSHAKE_STORM, storm, warm_file, bench.load_timeout_s):
                beside_us = acknowledge_p99(bench, broker, topic, records)
        return Sample(BYSTANDER, beside_us / alone_us, {"alone_us": alone_us, "beside_us": beside_us})


def tls_bootstrap(server: BrokerServer) -> str:
    """Return the address of a broker for clients that use TLS."""
    return f"{LOOPBACK}:{server.tls_port}"


def tls_scenarios() -> list[TlsBatches | TlsConnections]:
    """Both sizes of batches, and connections."""
    return [*map(TlsBatches, BARE_BATCH_SIZES), TlsConnections()]


def _speed(row: str, moved: int, usage: Usage) -> Sample:
    return Sample(row, moved / 1e6 / usage.wall_s, usage_details(usage))
