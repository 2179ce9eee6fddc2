"""What a scenario gets to measure with, and what a scenario is."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import attrs

from benchmarks.brokers import NO_SETTINGS
from benchmarks.load.process import LoadProcesses
from benchmarks.procfs import share_of_machine
from benchmarks.rows import OTHER_SHARE
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
    """The run: how much to measure, and the folder for everything that is written.

    `disk`: the folder for what has to be on a disk; None: there is none.
    """

    effort: Effort
    folder: Path
    disk: Path | None = None

    @property
    def load_timeout_s(self) -> float:
        """When a load is taken to hang."""
        effort = self.effort
        paced_s = effort.rate_records / effort.rate_per_s
        return _SLACK_S + 2 * max(effort.seconds, effort.slice_s) + paced_s


@attrs.frozen
class RunningBroker:
    """A broker that is up, a client that administrates it, and the clients that load it."""

    kind: BrokerKind
    server: BrokerServer
    admin: AdminClient
    loads: LoadProcesses = attrs.field(factory=LoadProcesses, init=False)

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
        broker = RunningBroker.of(kind, server)
        with broker.loads:
            yield broker
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
    """Starts and stops a broker of its own, in an empty folder, while no other is measured.

    What applies to several kinds is measured on them in turns.
    """

    def applies_to(self, kind: BrokerKind) -> bool: ...
    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]: ...


class BrokerScenario(Scenario, Protocol):
    """Loads a broker that runs and is warm.

    `measure` is one slice, of about a second: both brokers run, and take turns. What is run with
    `broker.loads` stays connected until the last slice.
    """

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]: ...


class ConfiguredScenario(BrokerScenario, Protocol):
    """Loads brokers of its own, which have these settings."""

    @property
    def settings(self) -> Mapping[str, str]: ...
    def applies_to(self, kind: BrokerKind) -> bool: ...


def usage_details(usage: Usage) -> dict[str, object]:
    """Who was busy, in cores: it shows whether client or broker set the pace, and who had a part in it."""
    wall = usage.wall_s
    return {
        "wall_s": wall,
        "client_cores": usage.client_cpu_s / wall,
        "broker_cores": usage.broker_cpu_s / wall,
        "idle_cores": usage.idle_cpu_s / wall,
        "other_cores": usage.other_cpu_s / wall,
        OTHER_SHARE: share_of_machine(usage.other_cpu_s, wall),
    }
