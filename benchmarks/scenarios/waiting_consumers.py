"""Consumers that wait at the end of many partitions, with fetch sessions (KIP-227) and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.load.loads import WAITING_CONSUMERS
from benchmarks.load.process import run_load
from benchmarks.load.waiting_consumers import WaitingConsumersSpec
from benchmarks.rows import Better, Row, Sample, value_at_most
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.brokers import BrokerKind
    from benchmarks.procfs import Usage

_PARTITIONS: Final = 100
_MAX_WAIT_MS: Final = 500
_WAITS: Final = 2
# Each of the eight parts of Kafka's cache has an eighth of the slots.
_SETTINGS: Final = {"max.incremental.fetch.session.cache.slots": "8000"}
WITH, WITHOUT, SHARE = "waiting-with-sessions", "waiting-without-sessions", "waiting-share"


@attrs.frozen
class WaitingConsumers:
    """Each over a connection of its own, with a wait of 500 ms, of which nothing comes."""

    consumers: int
    name: str = attrs.field(default="waiting", init=False)
    settings: Mapping[str, str] = attrs.field(default=_SETTINGS, init=False)

    @property
    def rows(self) -> Sequence[Row]:
        title = f"{self.consumers:,} consumers wait at {_PARTITIONS} partitions each"
        return [
            Row(WITH, f"{title}, with fetch sessions: share of a core", "%", Better.LOWER),
            Row(WITHOUT, f"{title}, without: share of a core", "%", Better.LOWER),
            Row(
                SHARE,
                f"{title}: broker CPU a response, with sessions of that without",
                "×",
                Better.LOWER,
                (value_at_most(0.25),),
            ),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        with topic_for_a_run(broker.admin, _PARTITIONS) as topic:
            costs_us: list[float] = []
            samples: list[Sample] = []
            for row, sessions in ((WITHOUT, False), (WITH, True)):
                answers, usage = self._wait(bench, broker, topic, sessions=sessions)
                costs_us.append(1e6 * usage.broker_cpu_s / max(answers, 1))
                details = {"answers": answers, "cpu_us": costs_us[-1], **usage_details(usage)}
                samples.append(Sample(row, 100 * usage.broker_cpu_s / usage.wall_s, details))
            without, with_sessions = costs_us
            return [*samples, Sample(SHARE, with_sessions / without)]

    def _wait(self, bench: Bench, broker: RunningBroker, topic: str, *, sessions: bool) -> tuple[int, Usage]:
        seconds = bench.effort.seconds
        spec = WaitingConsumersSpec(
            bootstrap=broker.server.bootstrap,
            broker_pid=broker.server.pid,
            topic=topic,
            consumers=self.consumers,
            partitions=_PARTITIONS,
            max_wait_ms=min(_MAX_WAIT_MS, int(_MAX_WAIT_MS * seconds)),
            seconds=_WAITS * seconds,
            sessions=sessions,
        )
        result = run_load(WAITING_CONSUMERS, spec, bench.load_timeout_s)
        return result.answers, result.usage
