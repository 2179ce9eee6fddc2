"""The broker alone: pre-encoded requests, so that no client library sets the pace."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import attrs

from benchmarks.load.loads import RAW_FETCH, RAW_PRODUCE
from benchmarks.load.raw_fetch import RawFetchSpec
from benchmarks.load.raw_produce import RawProduceSpec
from benchmarks.rows import Better, Row, Sample, ratio_at_least
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details
from .machine_limits import SEND_FILE_LIMIT, receive_limit
from .shapes import BARE_BATCH_SIZES, BATCH_SIZES, PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.load.raw_produce import RawProduceResult
    from benchmarks.procfs import Usage

_VALUE_BYTES = 1_000
_FETCH_TARGET = ratio_at_least(1.1, pure=1.0)


@attrs.frozen
class RawClient:
    """Produce batches of one size, then fetch them, both without a client library."""

    batch_bytes: int
    partitions: int

    @property
    def name(self) -> str:
        return f"raw-client-{self._shape}"

    @property
    def _shape(self) -> str:
        return f"{BATCH_SIZES[self.batch_bytes]}-{self.partitions}p"

    @property
    def rows(self) -> Sequence[Row]:
        shape, limit = self._shape, receive_limit(self.batch_bytes)
        partitions = f"{self.partitions} partition{'s' if self.partitions > 1 else ''}"
        title = f"{BATCH_SIZES[self.batch_bytes]} batches, {partitions}"
        return [
            Row(f"raw-produce-{shape}", f"raw client: produce {title}", "MB/s", Better.HIGHER, (), limit),
            Row(
                f"raw-produce-cpu-{shape}",
                f"raw client: broker CPU per batch in, {title}",
                "µs",
                Better.LOWER,
            ),
            Row(
                f"raw-fetch-{shape}",
                f"raw client: fetch {title}",
                "MB/s",
                Better.HIGHER,
                (_FETCH_TARGET,),
                SEND_FILE_LIMIT,
            ),
            Row(
                f"raw-fetch-cpu-{shape}", f"raw client: broker CPU per GB out, {title}", "s/GB", Better.LOWER
            ),
        ]

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        with topic_for_a_run(broker.admin, self.partitions) as topic:
            to_produce = self._produce(bench, broker, topic)
            produced = broker.loads.run(RAW_PRODUCE, to_produce, bench.load_timeout_s)
            to_fetch = self._fetch(bench, broker, topic, produced)
            fetched = broker.loads.run(RAW_FETCH, to_fetch, bench.load_timeout_s)
        bytes_in, bytes_out = (each.batches * produced.bytes_per_batch for each in (produced, fetched))
        cpu_us_in = produced.usage.broker_cpu_s * 1e6 / produced.batches
        cpu_s_out = fetched.usage.broker_cpu_s * 1e9 / bytes_out
        return [
            _rate(f"raw-produce-{self._shape}", bytes_in, produced.usage),
            Sample(f"raw-produce-cpu-{self._shape}", cpu_us_in, usage_details(produced.usage)),
            _rate(f"raw-fetch-{self._shape}", bytes_out, fetched.usage),
            Sample(f"raw-fetch-cpu-{self._shape}", cpu_s_out, usage_details(fetched.usage)),
        ]

    def _produce(self, bench: Bench, broker: RunningBroker, topic: str) -> RawProduceSpec:
        return RawProduceSpec(
            broker.server.bootstrap,
            broker.server.pid,
            topic,
            self.partitions,
            _VALUE_BYTES,
            self.batch_bytes,
            bench.effort.slice_s,
            bench.effort.most_bytes,
        )

    def _fetch(
        self, bench: Bench, broker: RunningBroker, topic: str, produced: RawProduceResult
    ) -> RawFetchSpec:
        return RawFetchSpec(
            broker.server.bootstrap,
            broker.server.pid,
            topic,
            self.partitions,
            produced.batches // self.partitions,
            produced.bytes_per_batch,
            produced.records_per_batch,
            bench.effort.slice_s,
        )


def _rate(row: str, moved: int, usage: Usage) -> Sample:
    return Sample(row, moved / 1e6 / usage.wall_s, {"bytes": moved, **usage_details(usage)})


def raw_clients() -> list[RawClient]:
    """For each batch size, into one partition and into many."""
    return [RawClient(*each) for each in product(BARE_BATCH_SIZES, PARTITIONS)]
