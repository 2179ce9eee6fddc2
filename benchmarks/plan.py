"""Which scenarios a run measures."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, TypeVar

import attrs

from .scenarios import (
    MEMORY_ROWS,
    ApplicationTest,
    AuthorizedProduce,
    BrokerScenario,
    Comfort,
    CommitLatency,
    ConfiguredScenario,
    GreedyClient,
    Heartbeats,
    HttpRecords,
    ImportTime,
    LatencyLimit,
    LaunchScenario,
    LoadedOffsets,
    MachineScenario,
    MixedLoad,
    PackageScenario,
    ProduceLimit,
    Scenario,
    Throughput,
    TimeToReady,
    WaitingConsumers,
    client_consumers,
    client_producers,
    codecs,
    compactions,
    durability,
    flush_limits,
    intercepted,
    latencies,
    machine_limits,
    mirror_copies,
    old_clients,
    raw_clients,
    spark_scenarios,
    storage_scenarios,
    tls_scenarios,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .effort import Effort
    from .rows import Row
    from .scenarios import Shape

AnyScenario = TypeVar("AnyScenario", bound=Scenario)


@attrs.frozen
class Plan:
    """Scenarios by what they need: nothing, a launch, brokers with settings, brokers that are warm."""

    machine: Sequence[MachineScenario]
    packages: Sequence[PackageScenario]
    launches: Sequence[LaunchScenario]
    sessions: Sequence[LaunchScenario]
    """Launches that measure all repeats at once: what they start takes long to get warm."""
    configured: Sequence[ConfiguredScenario]
    on_disk: Sequence[ConfiguredScenario]
    """Those that show nothing unless their data is on a disk; they share brokers."""
    loads: Sequence[BrokerScenario]
    memory: bool

    @classmethod
    def of(cls, shapes: Sequence[Shape], effort: Effort) -> Plan:
        """Everything, with these shapes of throughput load."""
        return cls(
            machine=[
                *machine_limits(),
                LatencyLimit(),
                LatencyLimit(at_rate=True),
                *map(ProduceLimit, shapes),
                *flush_limits(),
            ],
            packages=codecs(),
            launches=[
                TimeToReady(),
                ImportTime(),
                ApplicationTest(),
                Comfort(effort.partitions, effort.connections),
                Heartbeats(effort.groups),
                Heartbeats(effort.groups, consumer_protocol=True),
                LoadedOffsets(effort.offsets),
                *storage_scenarios(effort.most_bytes, effort.segments),
                *old_clients(),
                *client_producers(),
                *client_consumers(),
                *mirror_copies(),
                AuthorizedProduce(effort.acls),
                *intercepted(),
                HttpRecords(),
            ],
            sessions=spark_scenarios(effort.spark_records),
            configured=[
                *compactions(),
                WaitingConsumers(effort.connections),
                MixedLoad(),
                *tls_scenarios(),
            ],
            on_disk=durability(),
            loads=[*map(Throughput, shapes), *latencies(), CommitLatency(), GreedyClient(), *raw_clients()],
            memory=True,
        )

    def only(self, patterns: Sequence[str]) -> Plan:
        """The scenarios that a pattern fits, and the limits that their rows are shown against.

        A pattern fits the name of a scenario or of one of its rows, as a whole (`*` and `?` stand for
        anything) or as a part of it. Raises ValueError for a pattern that fits nothing.
        """
        for pattern in patterns:
            if not any(_fits(name, [pattern]) for name in self._names):
                raise ValueError(f"nothing is called {pattern!r}")
        loads, launches = _chosen(self.loads, patterns), _chosen(self.launches, patterns)
        limits = {row.limit for scenario in (*loads, *launches) for row in scenario.rows}
        chosen_limits = _chosen(self.machine, patterns)
        return Plan(
            machine=[each for each in self.machine if each in chosen_limits or each.name in limits],
            packages=_chosen(self.packages, patterns),
            launches=launches,
            sessions=_chosen(self.sessions, patterns),
            configured=_chosen(self.configured, patterns),
            on_disk=_chosen(self.on_disk, patterns),
            loads=loads,
            memory=self.memory and any(_fits(row.name, patterns) for row in MEMORY_ROWS),
        )

    def one_of_each_kind(self) -> Plan:
        """The first of those scenarios that differ in sizes only, where each has brokers of its own."""
        return attrs.evolve(
            self,
            packages=_first_of_each_kind(self.packages),
            launches=_first_of_each_kind(self.launches),
            configured=_first_of_each_kind(self.configured),
            on_disk=_first_of_each_kind(self.on_disk),
        )

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of the table."""
        return [
            *(row for scenario in self._before_loads for row in scenario.rows),
            *(MEMORY_ROWS if self.memory else ()),
            *(row for scenario in self.loads for row in scenario.rows),
        ]

    @property
    def _before_loads(self) -> list[Scenario]:
        own = (*self.launches, *self.sessions, *self.configured, *self.on_disk)
        return [*self.machine, *self.packages, *own]

    @property
    def _names(self) -> set[str]:
        scenarios = (*self._before_loads, *self.loads)
        return {row.name for row in self.rows} | {scenario.name for scenario in scenarios}


def _chosen(scenarios: Sequence[AnyScenario], patterns: Sequence[str]) -> list[AnyScenario]:
    return [
        each
        for each in scenarios
        if any(_fits(name, patterns) for name in (each.name, *(row.name for row in each.rows)))
    ]


def _first_of_each_kind(scenarios: Sequence[AnyScenario]) -> list[AnyScenario]:
    return [*{type(each): each for each in reversed(scenarios)}.values()][::-1]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or pattern in name for pattern in patterns)
