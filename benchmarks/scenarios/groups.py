"""Consumers in groups: heartbeats, commits, and reading back what was committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.load.commit import CommitSpec
from benchmarks.load.group_requests import await_coordinator, commit_frame
from benchmarks.load.heartbeats import HeartbeatsSpec
from benchmarks.load.loads import COMMIT, HEARTBEATS
from benchmarks.load.process import run_load
from benchmarks.load.raw_connection import RawConnection
from benchmarks.procfs import cpu_seconds, resident_bytes
from benchmarks.rows import Better, Row, Sample, ratio_at_most, value_at_most
from benchmarks.summaries import percentile
from benchmarks.topics import admin_client, create_topics, topic_for_a_run

from .context import Bench, RunningBroker, usage_details

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind, BrokerServer

PERCENTILES = {"p50": 50.0, "p99": 99.0}
_COMMIT_P99 = ratio_at_most(1.0)


@attrs.frozen
class CommitLatency:
    """One commit at a time."""

    name: str = attrs.field(default="commit", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        return [
            Row(
                f"commit-{name}",
                f"commit of an offset {name}, one at a time",
                "µs",
                Better.LOWER,
                (_COMMIT_P99,) if name == "p99" else (),
            )
            for name in PERCENTILES
        ]

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        count = bench.effort.latency_records
        with topic_for_a_run(broker.admin) as topic:
            spec = CommitSpec(broker.server.bootstrap, broker.server.pid, topic, count)
            result = broker.loads.run(COMMIT, spec, bench.load_timeout_s)
        details = {"commits": count, **usage_details(result.usage)}
        return [
            Sample(f"commit-{name}", percentile(result.latencies_us, percent), details)
            for name, percent in PERCENTILES.items()
        ]


_MEMBERS = 10
_INTERVAL_S = 3.0
_ROUNDS = 3
_LONGEST_SESSION = {"group.consumer.session.timeout.ms": "60000"}


@attrs.frozen
class Heartbeats:
    """Groups of ten members whose consumers send heartbeats as often as clients do by default."""

    groups: int
    consumer_protocol: bool = False

    @property
    def name(self) -> str:
        return "heartbeats-consumer" if self.consumer_protocol else "heartbeats"

    @property
    def rows(self) -> Sequence[Row]:
        kind = "consumer groups" if self.consumer_protocol else "groups"
        told = f"{self.groups:,} {kind} of {_MEMBERS} members with heartbeats"
        target = value_at_most(12, pure=20)
        return [
            Row(f"{self.name}-cpu", f"{told}: share of a core", "%", Better.LOWER, (target,)),
            Row(f"{self.name}-memory", f"{told}: resident memory", "MB", Better.LOWER),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        # Forming thousands of groups takes longer than a session as shipped.
        server = kind.server(work_dir, _LONGEST_SESSION)
        try:
            server.start()
            create_topics(admin_client(server.bootstrap), {"topic": _MEMBERS})
            interval_s = min(_INTERVAL_S, bench.effort.seconds * _INTERVAL_S)
            spec = HeartbeatsSpec(
                server.bootstrap,
                server.pid,
                "topic",
                self.groups,
                _MEMBERS,
                interval_s,
                _ROUNDS,
                self.consumer_protocol,
            )
            result = run_load(HEARTBEATS, spec, 2 * bench.load_timeout_s)
            share = 100 * result.usage.broker_cpu_s / result.usage.wall_s
            details = {"heartbeats": result.heartbeats, **usage_details(result.usage)}
            memory_mb = resident_bytes(server.pid) / 1e6
            return [Sample(f"{self.name}-cpu", share, details), Sample(f"{self.name}-memory", memory_mb)]
        finally:
            server.stop()


_PARTITIONS = 100
LOADED, LOADED_MEMORY = "offsets-loaded", "offsets-memory"


@attrs.frozen
class LoadedOffsets:
    """A broker starts with many committed offsets; groups have a hundred each."""

    offsets: int
    name: str = attrs.field(default="offsets", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        told = f"{self.offsets:,} committed offsets"
        title = f"{told}: process start until all can be fetched"
        return [
            Row(LOADED, title, "s", Better.LOWER, (value_at_most(5),)),
            Row(LOADED_MEMORY, f"{told}: resident memory", "MB", Better.LOWER),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        server = kind.server(work_dir)
        groups = [f"committed-{number:06d}" for number in range(self.offsets // _PARTITIONS)]
        try:
            server.start()
            create_topics(admin_client(server.bootstrap), {"topic": _PARTITIONS})
            _commit_all(server, groups)
            server.stop()
            server.start()
            with RawConnection(server.bootstrap) as connection:
                for group in groups[:_PARTITIONS]:
                    await_coordinator(connection, group, "topic")
            loaded_s = time.monotonic() - server.process.started_at
            details: dict[str, object] = {"broker_cpu_s": cpu_seconds(server.pid)}
            memory = Sample(LOADED_MEMORY, resident_bytes(server.pid) / 1e6)
            return [Sample(LOADED, loaded_s, details), memory]
        finally:
            server.stop()


def _commit_all(server: BrokerServer, groups: Sequence[str]) -> None:
    """One frame is enough: the names of all groups have the same length."""
    frame = bytes(commit_frame(groups[0], "topic", _PARTITIONS))
    with RawConnection(server.bootstrap) as connection:
        await_coordinator(connection, groups[0], "topic")
        for group in groups:
            connection.send(frame.replace(groups[0].encode(), group.encode()))
            answer = connection.receive(connection.receive_size())
            if answer[-2:] != b"\0\0":
                raise RuntimeError(f"a commit was refused: {answer[-2:].hex()}")
