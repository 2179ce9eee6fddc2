"""A worker without work waits for the next rewrite, for a while and no longer than the broker runs."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.kernel.config.bundle import bundle_config
from tests.log_cleanup import log_cleanup_of
from tests.plugins.cleaner.execution.test_rewriting import (
    NO_THROTTLE,
    THROTTLED,
    TOPIC,
    filled,
    offsets,
    running,
)
from tests.plugins.cleaner.filters import EvenOffsets
from tidelog.kernel.seams.cleanup import Rewrite
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.plugins.cleaner.execution import workers as workers_module
from tidelog.plugins.cleaner.execution.workers import Workers
from tidelog.plugins.cleaner.worker import process
from tidelog.plugins.cleaner.worker.process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tidelog.kernel.broker import Broker
    from tidelog.kernel.config import Config
    from tidelog.kernel.log import UnifiedLog
    from tidelog.plugins.cleaner.execution.rewriting import Worker


class Life:
    """`Lifespan` that ends when the test says so."""

    def __init__(self) -> None:
        self.is_ready = trio.Event()
        self.stopping = trio.Event()

    def ready(self) -> None:
        """Let the test go on."""
        self.is_ready.set()

    async def wait_stopping(self) -> None:
        """Wait for the test."""
        await self.stopping.wait()


@asynccontextmanager
async def keeping(broker: Broker) -> AsyncGenerator[Workers]:
    workers, life = Workers(broker.config), Life()
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers.keep, life)
            await life.is_ready.wait()
            yield workers
            life.stopping.set()


async def rewrite(broker: Broker, workers: Workers, partition: UnifiedLog) -> int:
    """Rewrite all inactive segments; return the id of the process that did it."""
    async with workers.worker() as worker:
        await rewrite_with(worker, broker, partition)
        return worker.pid


async def rewrite_with(worker: Worker, broker: Broker, partition: UnifiedLog) -> None:
    """Rewrite all inactive segments."""
    until = partition.store.segments()[-1].base_offset
    config = broker.topics.get(TOPIC).config
    await worker.rewrite(partition, Rewrite(until, 0.5, 0, _even_offsets), config, broker.clock())


def _even_offsets(_: Config) -> EvenOffsets:
    return EvenOffsets()


def runs(pid: int) -> bool:
    """Whether a process that this one started is there, and was not waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_worker_is_kept_for_the_next_rewrite_and_ends_with_the_broker(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        async with keeping(broker) as workers:
            pid = await rewrite(broker, workers, partition)
            assert offsets(partition)[:6] == [0, 2, 4, 6, 8, 10]
            assert await rewrite(broker, workers, partition) == pid
            assert runs(pid)
        assert not runs(pid)


async def test_a_running_broker_keeps_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    class Counted(WorkerProcess):
        def __init__(self) -> None:
            super().__init__()
            started.append(self.pid)

    monkeypatch.setattr(process, "WorkerProcess", Counted)
    async with running(tmp_path, "file") as broker:
        topic = await broker.topics.create(TopicSpec(TOPIC, 1, config={"cleanup.policy": "compact"}))
        (partition,) = topic.partitions
        for _ in range(2):
            for value in (b"older", b"newer"):
                partition.log.append_nowait(make_batch([value], keys=[b"key"]))
            outcome = await log_cleanup_of(broker).rewrite_now((), lambda *_: None)
            assert outcome.done == [partition.topic_partition]
        (pid,) = started
        assert runs(pid)
    assert not runs(pid)


async def test_a_worker_is_not_kept_where_nobody_would_end_it(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        assert not runs(await rewrite(broker, Workers(broker.config), partition))


async def test_a_worker_is_not_kept_longer_than_for_some_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "KEPT_S", 0.2)
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        async with keeping(broker) as workers:
            pid = await rewrite(broker, workers, partition)
            while runs(pid):  # noqa: ASYNC110 - a process sets no event
                await trio.sleep(0.01)
            assert await rewrite(broker, workers, partition) != pid


@pytest.mark.parametrize("by", ["stop", "time"])
async def test_a_worker_that_gets_work_while_another_one_is_ended_is_not_killed(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    killing, killed_first = threading.Event(), threading.Event()
    numbers, killed = itertools.count(), list[int]()

    class Process:
        """One that takes its time to be killed."""

        has_ended = False

        def __init__(self) -> None:
            self.pid = next(numbers)

        def kill(self) -> None:
            killing.set()
            assert killed_first.wait(DEADLINE_S)
            killed.append(self.pid)

    monkeypatch.setattr(workers_module, "_new_process", Process)
    monkeypatch.setattr(workers_module, "KEPT_S", 0.1 if by == "time" else 1e6)
    workers, life = Workers(bundle_config({"log.cleaner.threads": "2"})), Life()
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers.keep, life)
            await life.is_ready.wait()
            async with workers.worker(), workers.worker():
                pass
            if by == "stop":
                life.stopping.set()
            await trio.to_thread.run_sync(killing.wait, DEADLINE_S)
            async with workers.worker() as worker:
                killed_first.set()
                while not killed:
                    await trio.to_thread.run_sync(int)
                # The next one would be killed now.
                for _ in range(20):
                    await trio.to_thread.run_sync(int)
                assert worker.pid not in killed
            life.stopping.set()


class FakeProcess:
    """A process that does nothing."""

    has_ended = False

    def __init__(self) -> None:
        self.is_killed = False

    def kill(self) -> None:
        """End it."""
        self.is_killed = True


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[FakeProcess]:
    """Those that are started from now on, which are fakes."""
    started: list[FakeProcess] = []

    def start() -> FakeProcess:
        started.append(FakeProcess())
        return started[-1]

    monkeypatch.setattr(workers_module, "_new_process", start)
    return started


@pytest.mark.parametrize("threads", [1, 2])
async def test_no_more_than_log_cleaner_threads_work_at_once(
    processes: list[FakeProcess], threads: int
) -> None:
    workers = Workers(
        bundle_config({"log.cleaner.threads": threads, "log.cleaner.io.max.bytes.per.second": "600"})
    )
    at_once: list[int] = []
    rates: list[float] = []
    working = 0

    async def work() -> None:
        nonlocal working
        async with workers.worker():
            working += 1
            at_once.append(working)
            await trio.testing.wait_all_tasks_blocked(0.01)
            rates.append(workers.bytes_per_second())
            working -= 1

    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(work)
    assert max(at_once) == threads
    assert min(rates) == 600 / threads
    assert [each.is_killed for each in processes] == [True] * 4


async def test_work_that_is_cancelled_makes_room_for_other_work(processes: list[FakeProcess]) -> None:
    workers = Workers(bundle_config({"log.cleaner.threads": 1}))
    with trio.fail_after(DEADLINE_S):
        with trio.CancelScope() as scope:
            async with workers.worker():
                scope.cancel()
                await trio.sleep_forever()
        assert [each.is_killed for each in processes] == [True]
        async with workers.worker():
            assert [each.is_killed for each in processes] == [True, False]


async def test_a_worker_is_kept_for_a_minute_at_least_and_two_at_most(
    processes: list[FakeProcess], autojump_clock: trio.testing.MockClock
) -> None:
    workers, life = Workers(bundle_config()), Life()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers.keep, life)
        await life.is_ready.wait()
        await trio.sleep(50)
        async with workers.worker():
            pass
        (process,) = processes
        killed = [process.is_killed]
        for seconds in (59, 61):
            await trio.sleep(seconds)
            killed.append(process.is_killed)
        assert killed == [False, False, True]
        life.stopping.set()


async def test_a_worker_that_works_when_the_broker_stops_is_not_kept(processes: list[FakeProcess]) -> None:
    workers, life = Workers(bundle_config()), Life()
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers.keep, life)
            await life.is_ready.wait()
            async with workers.worker():
                life.stopping.set()
                await trio.testing.wait_all_tasks_blocked()
            (process,) = processes
            assert process.is_killed


async def test_a_kept_worker_that_was_killed_is_replaced(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        async with keeping(broker) as workers:
            pid = await rewrite(broker, workers, partition)
            os.kill(pid, signal.SIGKILL)
            await trio.to_thread.run_sync(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert await rewrite(broker, workers, partition) != pid


async def test_a_worker_in_the_middle_of_a_rewrite_is_not_kept(tmp_path: Path) -> None:
    async with running(tmp_path, "file", **THROTTLED) as broker:
        partition = await filled(broker)
        async with keeping(broker) as workers:
            async with workers.worker() as worker:
                with trio.move_on_after(1):
                    await rewrite_with(worker, broker, partition)
            assert not runs(worker.pid)
            broker.config.set_dynamic(NO_THROTTLE, {})
            assert await rewrite(broker, workers, partition)
            assert offsets(partition)[:6] == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("rate", "allowed"), [("1000", 1000), ("0.5", 0.5), ("-1", sys.float_info.max), ("0", 1e-6)]
)
def test_bytes_per_second_takes_every_rate(rate: str, allowed: float) -> None:
    workers = Workers(bundle_config({"log.cleaner.io.max.bytes.per.second": rate}))
    assert workers.bytes_per_second() == allowed
