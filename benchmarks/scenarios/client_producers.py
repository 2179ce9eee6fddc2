"""The producer of `tidelog.client` beside those of other Python clients, on the same broker in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG as TIDELOG_BROKER
from benchmarks.load.client_producers import (
    AIOKAFKA,
    CONFLUENT,
    KAFKA_PYTHON,
    TIDELOG,
    TIDELOG_ASYNCIO,
    ClientProducerSpec,
)
from benchmarks.load.loads import CLIENT_PRODUCE
from benchmarks.load.process import run_load
from benchmarks.rows import Better, Row, Sample, value_at_least, value_at_most
from benchmarks.topics import create_topics

from .context import Bench, started_broker, usage_details

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind
    from benchmarks.load.client_producers import ClientProducerResult

_WAITS = 300
_OURS = {AIOKAFKA: TIDELOG_ASYNCIO, KAFKA_PYTHON: TIDELOG, CONFLUENT: TIDELOG}
"""What each is compared with: an event loop with an event loop, threads with threads."""
_LEAST = {AIOKAFKA: 2.0, KAFKA_PYTHON: 2.0, CONFLUENT: 0.5}


@attrs.frozen
class ClientProducers:
    """Records of one size and codec by each client in turn."""

    value_bytes: int
    compression: str

    @property
    def name(self) -> str:
        return f"client-produce-{self.value_bytes}B-{self.compression}"

    @property
    def rows(self) -> Sequence[Row]:
        what = f"{self.value_bytes} B records, {self.compression}"
        higher, lower = Better.HIGHER, Better.LOWER
        speed = [
            Row(
                f"{self.name}-{other}",
                f"our producer, {what}, in the speed of {other}",
                "×",
                higher,
                (value_at_least(least),),
            )
            for other, least in _LEAST.items()
        ]
        rest = (
            ("wait", "one record and its acknowledgement, p50, in the time of aiokafka", 1.0),
            ("first", "import and first record, in the time of aiokafka", 0.5),
            ("memory", "memory of import and first record, in that of aiokafka", 0.5),
        )
        return [
            *speed,
            *(
                Row(
                    f"{self.name}-{name}",
                    f"our producer, {what}: {title}",
                    "×",
                    lower,
                    (value_at_most(most),),
                )
                for name, title, most in rest
            ),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG_BROKER

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        found: dict[str, ClientProducerResult] = {}
        with started_broker(kind, work_dir) as broker:
            clients = (TIDELOG, TIDELOG_ASYNCIO, *_OURS)
            create_topics(broker.admin, dict.fromkeys(clients, 1))
            for client in clients * bench.effort.rounds:
                server = broker.server
                spec = ClientProducerSpec(
                    server.bootstrap,
                    server.pid,
                    client,
                    client,
                    self.value_bytes,
                    self.compression,
                    bench.effort.slice_s,
                    _WAITS,
                )
                found[client] = run_load(CLIENT_PRODUCE, spec, bench.load_timeout_s)
        return self._samples(found)

    def _samples(self, found: dict[str, ClientProducerResult]) -> list[Sample]:
        rates = {client: each.records / each.usage.wall_s for client, each in found.items()}
        ours, theirs = found[TIDELOG_ASYNCIO], found[AIOKAFKA]
        samples = [
            Sample(
                f"{self.name}-{other}",
                rates[own] / rates[other],
                {
                    "records_per_s": rates[own],
                    f"{other}_records_per_s": rates[other],
                    **usage_details(found[own].usage),
                },
            )
            for other, own in _OURS.items()
        ]
        figures = {
            "wait": (ours.p50_us, theirs.p50_us),
            "first": (ours.first_s, theirs.first_s),
            "memory": (float(ours.first_bytes), float(theirs.first_bytes)),
        }
        return samples + [
            Sample(f"{self.name}-{name}", own / other, {"tidelog": own, AIOKAFKA: other})
            for name, (own, other) in figures.items()
        ]


def client_producers() -> list[ClientProducers]:
    """Short and long records, without compression and with lz4."""
    return [ClientProducers(size, codec) for size in (100, 1000) for codec in ("none", "lz4")]
