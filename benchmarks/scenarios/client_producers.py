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
    from collections.abc import Iterator, Sequence
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
        waiting = Row(
            f"{self.name}-wait",
            f"our producer, {what}: one record and its acknowledgement, p50, in the time of aiokafka",
            "×",
            lower,
            (value_at_most(1.0),),
        )
        firsts = [
            Row(
                f"{self.name}-{name}-{other}",
                f"our producer, {what}: {title} {other}",
                "×",
                lower,
                (value_at_most(0.5),),
            )
            for other in _OURS
            for name, title in (
                ("first", "import and first record, in the time of"),
                ("memory", "memory of import and first record, in that of"),
            )
        ]
        return [*speed, waiting, *firsts]

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
        return [*samples, self._waiting(found), *self._firsts(found)]

    def _waiting(self, found: dict[str, ClientProducerResult]) -> Sample:
        ours, theirs = found[TIDELOG_ASYNCIO].p50_us, found[AIOKAFKA].p50_us
        return Sample(f"{self.name}-wait", ours / theirs, {"tidelog_us": ours, "aiokafka_us": theirs})

    def _firsts(self, found: dict[str, ClientProducerResult]) -> Iterator[Sample]:
        for other, own in _OURS.items():
            ours, theirs = found[own], found[other]
            yield Sample(
                f"{self.name}-first-{other}",
                ours.first_s / theirs.first_s,
                {"tidelog_s": ours.first_s, f"{other}_s": theirs.first_s},
            )
            yield Sample(
                f"{self.name}-memory-{other}",
                ours.first_bytes / theirs.first_bytes,
                {"tidelog_bytes": ours.first_bytes, f"{other}_bytes": theirs.first_bytes},
            )


def client_producers() -> list[ClientProducers]:
    """Short and long records, without compression and with lz4."""
    return [ClientProducers(size, codec) for size in (100, 1000) for codec in ("none", "lz4")]
