"""The rate limit of moves between log directories, as it changes while the broker runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.storage_file.files import eventually
from tidelog.kernel.config.types import LONG_MAX
from tidelog.plugins.storage_file.moving.throttle import Throttle
from tidelog.plugins.storage_file.storage import FileStorage

from .test_replica_moves import append, moved, the_partition, two_directories
from .two_directories import PARTITION

KEY = "replica.alter.log.dirs.io.max.bytes.per.second"


def always() -> bool:
    """The move is wanted."""
    return True


async def waited(throttle: Throttle, copied: int, wanted: Callable[[], bool] = always) -> float:
    """How many seconds pass until so many bytes may be followed by others."""
    start = trio.current_time()
    throttle.add(copied)
    await throttle.wait(wanted)
    return trio.current_time() - start


@pytest.mark.parametrize(
    ("rate", "copied", "seconds", "at_once"),
    [
        (LONG_MAX, 10**9, 0.0, math.inf),
        (1000, 0, 0.0, 1000),
        (1000, 1000, 1.0, 1000),
        (1000, 5500, 5.5, 1000),
        (10**9, 1000, 1e-6, 10**9),
    ],
)
async def test_wait_takes_as_long_as_the_bytes_may_take(
    autojump_clock: MockClock, rate: int, copied: int, seconds: float, at_once: float
) -> None:
    throttle = Throttle(lambda: rate)
    await throttle.wait(always)
    assert await waited(throttle, copied) == pytest.approx(seconds, abs=1e-9)
    assert await waited(throttle, copied) == pytest.approx(seconds, abs=1e-9)
    assert throttle.bytes_at_once() == at_once


async def test_wait_ends_soon_when_the_limit_is_raised_or_the_move_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    rate = 0
    throttle = Throttle(lambda: rate)
    await throttle.wait(always)
    start = trio.current_time()
    assert 100 <= await waited(throttle, 1, lambda: trio.current_time() < start + 100) < 101
    async with trio.open_nursery() as nursery:

        async def raise_it() -> None:
            nonlocal rate
            await trio.sleep(50)
            rate = 10**6

        nursery.start_soon(raise_it)
        assert 50 <= await waited(throttle, 1) < 51


async def test_a_move_waits_between_chunks_until_the_limit_is_raised(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        assert isinstance(broker.storage, FileStorage)
        partition = the_partition(broker)
        append(partition, 3000, 1000)
        await broker.controller.alter_broker_config(1, lambda before: {**before, KEY: "1"})
        await broker.storage.log_directories.move(PARTITION, str(tmp_path / "b"))
        statistics = broker.storage._opened_moves.statistics  # pyright: ignore[reportPrivateUsage]
        await eventually(lambda: statistics.copied_bytes > 0)
        assert statistics.copied_bytes < partition.store.size_bytes
        append(partition, 1)
        assert not statistics.moved
        assert [each.is_in_sync for each in broker.storage.moves_under_way] == [False]
        await broker.controller.alter_broker_config(1, lambda before: {})
        await moved(broker, tmp_path, "b")
