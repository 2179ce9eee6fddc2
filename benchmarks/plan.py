"""Which scenarios a run goes through."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, TypeVar

import attrs

from .scenarios import (
    MEMORY_ROWS,
    BrokerScenario,
    Comfort,
    ImportTime,
    LaunchScenario,
    MachineScenario,
    Scenario,
    Throughput,
    TimeToReady,
    latencies,
    machine_limits,
    raw_clients,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .rows import Row
    from .scenarios import Shape

AnyScenario = TypeVar("AnyScenario", bound=Scenario)


@attrs.frozen
class Plan:
    """Scenarios by what they need: nothing, a launch of their own, a broker that runs and is warm."""

    machine: Sequence[MachineScenario]
    launches: Sequence[LaunchScenario]
    loads: Sequence[BrokerScenario]
    memory: bool

    @classmethod
    def of(cls, shapes: Sequence[Shape]) -> Plan:
        """Everything, with these shapes of throughput load."""
        return cls(
            machine=machine_limits(),
            launches=[TimeToReady(), ImportTime(), Comfort()],
            loads=[*map(Throughput, shapes), *latencies(), *raw_clients()],
            memory=True,
        )

    def only(self, patterns: Sequence[str]) -> Plan:
        """What fills at least one row that a pattern fits, and the limits that those rows are shown against.

        A pattern fits a row's name as a whole (`*` and `?` stand for anything) or as a part of it. Raises
        ValueError for a pattern that fits no row.
        """
        for pattern in patterns:
            if not any(_fits(row, [pattern]) for row in self.rows):
                raise ValueError(f"no row fits {pattern!r}")
        launches = _chosen(self.launches, patterns)
        loads = _chosen(self.loads, patterns)
        limits = {row.limit for scenario in loads for row in scenario.rows}
        return Plan(
            machine=[
                each
                for each in self.machine
                if any(_fits(row, patterns) or row.name in limits for row in each.rows)
            ],
            launches=launches,
            loads=loads,
            memory=any(_fits(row, patterns) for row in MEMORY_ROWS) and self.memory,
        )

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of the table."""
        scenarios: list[Scenario] = [*self.machine, *self.launches]
        after: list[Scenario] = [*self.loads]
        return [
            *(row for scenario in scenarios for row in scenario.rows),
            *(MEMORY_ROWS if self.memory else ()),
            *(row for scenario in after for row in scenario.rows),
        ]


def _chosen(scenarios: Sequence[AnyScenario], patterns: Sequence[str]) -> list[AnyScenario]:
    return [each for each in scenarios if any(_fits(row, patterns) for row in each.rows)]


def _fits(row: Row, patterns: Sequence[str]) -> bool:
    return any(fnmatch(row.name, pattern) or pattern in row.name for pattern in patterns)
