"""A mirror with partitions kept, beside a raw copy of the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG as TIDELOG_BROKER
from benchmarks.load.copies import MIRROR, RAW, CopyResult, CopySpec
from benchmarks.load.loads import COPY, RAW_PRODUCE
from benchmarks.load.process import run_load
from benchmarks.load.raw_produce import RawProduceSpec
from benchmarks.rows import Better, Row, Sample, value_at_least
from benchmarks.topics import create_topics

from .context import Bench, started_broker, usage_details
from .shapes import BATCH_SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind

_VALUE_BYTES = 1_000
_PARTITIONS = 3
_LEAST = 0.7
_TOPIC, _EMPTY = "copied", "empty"


@attrs.frozen
class MirrorCopy:
    """A topic with batches of one size, copied from one broker to another in both ways, in turns."""

    batch_bytes: int

    @property
    def name(self) -> str:
        return f"mirror-{BATCH_SIZES[self.batch_bytes]}"

    @property
    def rows(self) -> Sequence[Row]:
        title = f"{BATCH_SIZES[self.batch_bytes]} batches, {_PARTITIONS} partitions"
        least = (value_at_least(_LEAST),)
        return [
            Row(
                f"{self.name}-speed", f"mirror in the speed of a raw copy, {title}", "×", Better.HIGHER, least
            ),
            Row(f"{self.name}-rate", f"mirror, {title}", "MB/s", Better.HIGHER),
            Row(f"{self.name}-cpu", f"mirror: its own CPU per GB, {title}", "s/GB", Better.LOWER),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG_BROKER

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        found: dict[str, CopyResult] = {}
        with started_broker(kind, work_dir / "source") as source:
            create_topics(source.admin, {_TOPIC: _PARTITIONS, _EMPTY: 1})
            produced = run_load(
                RAW_PRODUCE,
                RawProduceSpec(
                    source.server.bootstrap,
                    source.server.pid,
                    _TOPIC,
                    _PARTITIONS,
                    _VALUE_BYTES,
                    self.batch_bytes,
                    bench.load_timeout_s,
                    bench.effort.most_bytes,
                ),
                2 * bench.load_timeout_s,
            )
            end = produced.batches // _PARTITIONS * produced.records_per_batch
            for number, by in enumerate((RAW, MIRROR) * bench.effort.rounds):
                # Each copy goes to a broker of its own, which has nothing else.
                with started_broker(kind, work_dir / f"target-{number}") as target:
                    create_topics(target.admin, {_TOPIC: _PARTITIONS})
                    spec = CopySpec(
                        source.server.bootstrap,
                        target.server.bootstrap,
                        target.server.pid,
                        _TOPIC,
                        _EMPTY,
                        _PARTITIONS,
                        end,
                        by,
                    )
                    found[by] = run_load(COPY, spec, bench.load_timeout_s)
        return self._samples(found)

    def _samples(self, found: dict[str, CopyResult]) -> list[Sample]:
        rates = {by: each.copied / 1e6 / each.usage.wall_s for by, each in found.items()}
        mirror, raw = found[MIRROR], found[RAW]
        details = {
            "mirror_mb_per_s": rates[MIRROR],
            "raw_mb_per_s": rates[RAW],
            "raw_cpu_s_per_gb": raw.usage.client_cpu_s * 1e9 / raw.copied,
            **usage_details(mirror.usage),
        }
        return [
            Sample(f"{self.name}-speed", rates[MIRROR] / rates[RAW], details),
            Sample(f"{self.name}-rate", rates[MIRROR], details),
            Sample(f"{self.name}-cpu", mirror.usage.client_cpu_s * 1e9 / mirror.copied, details),
        ]


def mirror_copies() -> list[MirrorCopy]:
    """Batches of each size that the raw client is measured with."""
    return [MirrorCopy(size) for size in BATCH_SIZES]
