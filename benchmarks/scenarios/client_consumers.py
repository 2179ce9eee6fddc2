"""The consumer of `tidelog.client` beside those of other Python clients, on the same broker in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG as TIDELOG_BROKER
from benchmarks.load.client_consumers import BATCHES, RECORDS, TABLES, VIEWS, ClientConsumerSpec
from benchmarks.load.client_producers import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, TIDELOG, TIDELOG_ASYNCIO
from benchmarks.load.loads import CLIENT_CONSUME, PRODUCE
from benchmarks.load.process import run_load
from benchmarks.load.produce import ProduceSpec
from benchmarks.rows import Better, Row, Sample, value_at_least
from benchmarks.topics import create_topics

from .context import Bench, started_broker, usage_details

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind
    from benchmarks.load.client_consumers import ClientConsumerResult

_TOPIC = "read"
_BATCH_BYTES = 100_000
_MOST_BYTES = 100_000_000
"""Of a pass; it takes the fastest a tenth of a second or more."""


@attrs.frozen
class _Pair:
    """Ours in one way of reading, and the other in what it has for that; None for no target."""

    way: str
    ours: str
    other_way: str
    other: str
    least: float | None
    title: str


_PAIRS = (
    _Pair(RECORDS, TIDELOG_ASYNCIO, RECORDS, AIOKAFKA, 2.0, "one by one"),
    _Pair(RECORDS, TIDELOG, RECORDS, KAFKA_PYTHON, 2.0, "one by one"),
    _Pair(VIEWS, TIDELOG, BATCHES, CONFLUENT, 3.0, "by batch"),
    _Pair(BATCHES, TIDELOG, BATCHES, CONFLUENT, None, "by batch, each value looked at"),
    _Pair(TABLES, TIDELOG, TABLES, CONFLUENT, 5.0, "as Arrow tables"),
)


@attrs.frozen
class ClientConsumers:
    """Records of one size and codec, read by each client in turn."""

    value_bytes: int
    compression: str

    @property
    def name(self) -> str:
        return f"client-consume-{self.value_bytes}B-{self.compression}"

    @property
    def rows(self) -> Sequence[Row]:
        return [
            Row(
                self._row(pair),
                f"our consumer, {self.value_bytes} B records, {self.compression}, {pair.title}, "
                f"in the speed of {pair.other}",
                "×",
                Better.HIGHER,
                () if pair.least is None else (value_at_least(pair.least),),
            )
            for pair in _PAIRS
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG_BROKER

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        found: dict[tuple[str, str], ClientConsumerResult] = {}
        readers = dict.fromkeys(
            each for pair in _PAIRS for each in ((pair.ours, pair.way), (pair.other, pair.other_way))
        )
        with started_broker(kind, work_dir) as broker:
            create_topics(broker.admin, {_TOPIC: 1})
            server, slice_s = broker.server, bench.effort.slice_s
            to_produce = ProduceSpec(
                server.bootstrap,
                server.pid,
                _TOPIC,
                1,
                self.value_bytes,
                _BATCH_BYTES,
                self.compression,
                slice_s,
                min(bench.effort.most_bytes, _MOST_BYTES),
            )
            stored = run_load(PRODUCE, to_produce, bench.load_timeout_s).stored
            for client, way in [*readers] * bench.effort.rounds:
                spec = ClientConsumerSpec(
                    server.bootstrap, server.pid, _TOPIC, client, way, stored, self.value_bytes, slice_s
                )
                found[client, way] = run_load(CLIENT_CONSUME, spec, bench.load_timeout_s)
        return [
            self._sample(pair, found[pair.ours, pair.way], found[pair.other, pair.other_way])
            for pair in _PAIRS
        ]

    def _sample(self, pair: _Pair, ours: ClientConsumerResult, other: ClientConsumerResult) -> Sample:
        own_rate, other_rate = ours.records / ours.usage.wall_s, other.records / other.usage.wall_s
        details = {"records_per_s": own_rate, f"{pair.other}_records_per_s": other_rate}
        return Sample(self._row(pair), own_rate / other_rate, {**details, **usage_details(ours.usage)})

    def _row(self, pair: _Pair) -> str:
        return f"{self.name}-{pair.way}-{pair.other}"


def client_consumers() -> list[ClientConsumers]:
    """Short and long records, without compression and with lz4."""
    return [ClientConsumers(size, codec) for size in (100, 1000) for codec in ("none", "lz4")]
