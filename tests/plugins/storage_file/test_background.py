"""When the periodic tasks on logs run for the first time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tests.turns import turns_of_another_task
from tidelog.kernel import pace
from tidelog.kernel.maintenance import timed_flush_task
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.seams.tasks import BackgroundTask, PeriodicTask
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.plugins.storage_file.partition_store import FilePartitionStore


class StartedTasks(BackgroundTasks):
    """Notes which tasks are started, and runs none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, PeriodicTask] = {}

    def start(self, task: BackgroundTask) -> None:
        """Note it."""
        assert isinstance(task, PeriodicTask)
        self.by_name[task.name] = task


@pytest.mark.parametrize("delay_ms", [0, 45_000])
async def test_the_log_managers_tasks_wait_for_the_initial_delay(tmp_path: Path, delay_ms: int) -> None:
    tasks = StartedTasks()
    harness = LogDirectoryHarness(tmp_path, tasks, {"log.initial.task.delay.ms": delay_ms})
    await harness.open()
    tasks.start(timed_flush_task(harness.config, None, harness.clock))  # type: ignore[arg-type]
    await harness.close()
    # As Apache Kafka's LogManager schedules them; the two that Kafka schedules otherwise do not wait for it.
    waiting = {"log-flusher", "checkpoint recovery points", "checkpoint log starts", "delete partitions"}
    assert {tasks.by_name[name].initial_delay_ms for name in waiting} == {delay_ms}
    assert tasks.by_name["delete segment files"].initial_delay_ms == 1000
    assert tasks.by_name["checkpoint high watermarks"].initial_delay_ms == 0


@pytest.mark.parametrize(
    "key", ["log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms"]
)
async def test_tasks_omit_a_checkpoint_task_whose_interval_ms_is_zero(tmp_path: Path, key: str) -> None:
    tasks = StartedTasks()
    harness = LogDirectoryHarness(tmp_path, tasks, {key: 0})
    await harness.open()
    await harness.close()
    assert sum(name.startswith("checkpoint") for name in tasks.by_name) == 2


async def test_idle_files_of_many_partitions_are_closed_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = StartedTasks()
    harness = LogDirectoryHarness(tmp_path, tasks)
    await harness.open()
    stores = await harness.storage.open_partitions([harness.spec(partition=number) for number in range(20)])
    looked_at: list[PartitionStore] = []

    def look(store: PartitionStore) -> None:
        looked_at.append(store)

    monkeypatch.setattr(FilePartitionStore, "release_idle", look)
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)
    async with turns_of_another_task() as turns:
        await tasks.by_name["close idle files"].run()
    assert looked_at == list(stores)
    assert turns.count >= len(stores) // 2
    monkeypatch.undo()
    await harness.close()
