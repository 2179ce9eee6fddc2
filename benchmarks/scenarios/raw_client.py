"""The broker alone: pre-encoded requests, so that no client library sets the pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.load.loads import RAW_FETCH, RAW_PRODUCE
from benchmarks.load.process import run_load
from benchmarks.load.raw_fetch import RawFetchSpec
from benchmarks.load.raw_produce import RawProduceSpec
from benchmarks.rows import Better, Row, Sample
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details
from .machine_limits import SEND_FILE_LIMIT, receive_limit
from .shapes import BATCH_SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.load.raw_produce import RawProduceResult
    from benchmarks.procfs import Usage

_VALUE_BYTES = 1_000


@attrs.frozen
class RawClient:
    """Produce batches of one size, then fetch them, both without a client library."""

    batch_bytes: int

    @property
    def name(self) -> str:
        return f"raw-client-{self._size}"

    @property
    def _size(self) -> str:
        return BATCH_SIZES[self.batch_bytes]

    @property
    def rows(self) -> Sequence[Row]:
        size, limit = self._size, receive_limit(self.batch_bytes)
        return [
            Row(
                f"raw-produce-{size}", f"raw client: produce {size} batches", "MB/s", Better.HIGHER, (), limit
            ),
            Row(f"raw-produce-cpu-{size}", f"raw client: broker CPU per {size} batch in", "µs", Better.LOWER),
            Row(
                f"raw-fetch-{size}",
                f"raw client: fetch {size} batches",
                "MB/s",
                Better.HIGHER,
                (),
                SEND_FILE_LIMIT,
            ),
            Row(f"raw-fetch-cpu-{size}", f"raw client: broker CPU per GB out, {size}", "s/GB", Better.LOWER),
        ]

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        with topic_for_a_run(broker.admin) as topic:
            produced = run_load(RAW_PRODUCE, self._produce(bench, broker, topic), bench.load_timeout_s)
            fetched = run_load(RAW_FETCH, _fetch(bench, broker, topic, produced), bench.load_timeout_s)
        bytes_in, bytes_out = (each.batches * produced.bytes_per_batch for each in (produced, fetched))
        per_batch_us = produced.usage.broker_cpu_s * 1e6 / produced.batches
        return [
            _rate(f"raw-produce-{self._size}", bytes_in, produced.usage),
            Sample(f"raw-produce-cpu-{self._size}", per_batch_us),
            _rate(f"raw-fetch-{self._size}", bytes_out, fetched.usage),
            Sample(f"raw-fetch-cpu-{self._size}", fetched.usage.broker_cpu_s * 1e9 / bytes_out),
        ]

    def _produce(self, bench: Bench, broker: RunningBroker, topic: str) -> RawProduceSpec:
        return RawProduceSpec(
            broker.server.bootstrap,
            broker.server.pid,
            topic,
            _VALUE_BYTES,
            self.batch_bytes,
            bench.effort.seconds,
            bench.effort.most_bytes,
        )


def _fetch(bench: Bench, broker: RunningBroker, topic: str, produced: RawProduceResult) -> RawFetchSpec:
    return RawFetchSpec(
        broker.server.bootstrap,
        broker.server.pid,
        topic,
        produced.batches,
        produced.bytes_per_batch,
        produced.records_per_batch,
        bench.effort.seconds,
    )


def _rate(row: str, moved: int, usage: Usage) -> Sample:
    return Sample(row, moved / 1e6 / usage.wall_s, {"bytes": moved, **usage_details(usage)})


def raw_clients() -> list[RawClient]:
    """For each batch size."""
    return [RawClient(size) for size in BATCH_SIZES]
