"""A broker or a client in a program leaves the program's own random numbers alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.client.settings import RetryPolicy


async def test_a_broker_draws_no_number_of_its_program(tmp_path: Path) -> None:
    random.seed(7)
    before = random.getstate()
    async with running_broker({"storage": "file", "log.dirs": str(tmp_path)}) as broker:
        await broker.topics.create(TopicSpec("t", 3, config={"segment.jitter.ms": "1000"}))
    assert random.getstate() == before


@pytest.mark.usefixtures("autojump_clock")
async def test_background_tasks_draw_no_number_of_their_program() -> None:
    runs: list[None] = []

    async def run() -> None:
        runs.append(None)

    before = random.getstate()
    tasks = BackgroundTasks()
    async with tasks.running():
        tasks.start(PeriodicTask("jittered", run, 1000, 1000, jitter_ms=500))
        await trio.sleep(10)
    assert len(runs) > 3
    assert random.getstate() == before


def test_pauses_of_a_client_draw_no_number_of_its_program() -> None:
    before = random.getstate()
    assert len({RetryPolicy().pause_s(attempt) for attempt in range(5)}) == 5
    assert random.getstate() == before
