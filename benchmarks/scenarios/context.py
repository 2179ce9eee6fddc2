"""What a scenario gets to measure with, and what a scenario is."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import attrs

from benchmarks.brokers import NO_SETTINGS
from benchmarks.topics import admin_client

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from benchmarks.brokers import BrokerKind, BrokerServer
    from benchmarks.effort import Effort
    from benchmarks.procfs import Usage
    from benchmarks.rows import Row, Sample

# A load may take this much longer than it measures: it starts, connects, flushes, ends.
_SLACK_S = 90.0


@attrs.frozen
class Bench:
    """The run: how much to measure, and the folder for everything that is written."""

    effort: Effort
    folder: Path

    @property
    def load_timeout_s(self) -> float:
        """When a load is taken to hang."""
        paced_s = self.effort.rate_records / self.effort.rate_per_s
        return _SLACK_S + 2 * max(self.effort.seconds, self.effort.warm_up_s) + paced_s


@attrs.frozen
class RunningBroker:
    """A broker that is up, and a client that administrates it."""

    kind: BrokerKind
    server: BrokerServer
    admin: AdminClient

    @classmethod
    def of(cls, kind: BrokerKind, server: BrokerServer) -> RunningBroker:
        """For a server that was started."""
        return cls(kind, server, admin_client(server.bootstrap))


@contextmanager
def started_broker(
    kind: BrokerKind, work_dir: Path, settings: Mapping[str, str] = NO_SETTINGS
) -> Generator[RunningBroker]:
    """Start a broker in an empty folder, and stop it when the block ends."""
    server = kind.server(work_dir, settings)
    try:
        server.start()
        yield RunningBroker.of(kind, server)
    finally:
        server.stop()


class Scenario(Protocol):
    """Something that fills rows."""

    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> Sequence[Row]: ...


class MachineScenario(Scenario, Protocol):
    """Measures the machine alone."""

    def measure(self, bench: Bench) -> list[Sample]: ...


class PackageScenario(Scenario, Protocol):
    """Measures tidelog's code and that of other packages, which its rows name, without a broker."""

    def measure(self, bench: Bench, subject: str) -> list[Sample]: ...


class LaunchScenario(Scenario, Protocol):
    """Starts and stops a broker of its own, in an empty folder, while no other is measured."""

    def applies_to(self, kind: BrokerKind) -> bool: ...
    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]: ...


class BrokerScenario(Scenario, Protocol):
    """Loads a broker that runs and is warm."""

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]: ...


def usage_details(usage: Usage) -> dict[str, object]:
    """Who was busy, in cores: what tells whether client or broker set the pace."""
    wall = usage.wall_s
    return {
        "wall_s": wall,
        "client_cores": usage.client_cpu_s / wall,
        "broker_cores": usage.broker_cpu_s / wall,
        "other_cores": usage.other_cpu_s / wall,
        "other_share": usage.other_cpu_s / wall / (os.cpu_count() or 1),
    }
