"""Background tasks of a coordinator: handed over at the start, idle until its services are created."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask
from tidelog.kernel.testing.broker import running_broker

INTERVALS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 4000,
    "offsets.retention.check.interval.ms": 5000,
}


async def test_background_tasks_bear_the_configured_intervals() -> None:
    async with running_broker(INTERVALS) as broker:
        tasks = broker.coordinator.background_tasks()
        assert [task.name for task in tasks if isinstance(task, LifespanTask)] == ["group-deadlines"]
        assert {
            task.name: (task.initial_delay_ms, task.interval_ms)
            for task in tasks
            if isinstance(task, PeriodicTask)
        } == {
            "transaction-completion": (0, 200),
            "transaction-abort": (3000, 3000),
            "transactional-id-expiration": (4000, 4000),
            "offset-expiration": (5000, 5000),
        }


@pytest.mark.parametrize("kind", ["classic", "memory"])
async def test_background_tasks_run_once_the_services_are_created(
    autojump_clock: MockClock, kind: str
) -> None:
    async with running_broker({"coordinator": kind, **INTERVALS}) as broker:
        names = {
            task.name for task in broker.coordinator.background_tasks() if isinstance(task, PeriodicTask)
        }
        await trio.sleep(60)
        assert {broker.tasks.statistics()[name].runs for name in names} == {0}
        _ = broker.coordinator.groups
        await trio.sleep(2.9)
        statistics = broker.tasks.statistics()
        assert (statistics["transaction-completion"].runs, statistics["transaction-abort"].runs) == (15, 0)
        await trio.sleep(2.2)
        statistics = broker.tasks.statistics()
        assert all(statistics[name].runs >= 1 for name in names)
        assert not any(statistics[name].failures for name in names)
