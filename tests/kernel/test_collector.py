"""The garbage collector is held back while a broker starts, and visits only what is new while it runs."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import trio
from trio.testing import MockClock

from tests.deadlines import DEADLINE_S
from tidelog.kernel.broker import Broker, serve
from tidelog.kernel.cli.main import tidelog
from tidelog.kernel.collector import (
    FEW_COLLECTIONS,
    RARE_OBJECTS,
    THAW_INTERVAL_MS,
    Thaw,
    frozen_survivors,
    rare_collections,
)
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.plugins import configure

MANY = 200_000


class Cycle:
    """Freed by the collector only."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector as it was, afterwards; and collections only where a test asks for one."""
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def failing_start() -> None:
    with rare_collections():
        raise RuntimeError(f"failed, at {gc.get_threshold()[0]} objects")


def test_rare_collections_ends_with_a_start_that_failed() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError, match=f"failed, at {RARE_OBJECTS} objects"):
        failing_start()
    assert gc.get_threshold() == before


def test_rare_collections_ends_when_the_broker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(*_: object) -> None:
        seen.append(gc.get_threshold()[0])

    async def serve(*_: object, on_ready: Callable[[object], None], **__: object) -> None:
        look()
        on_ready(None)

    monkeypatch.setattr("tidelog.kernel.broker.serve", serve)
    monkeypatch.setattr("tidelog.kernel.cli.ready.ReadyReport.__call__", look)
    monkeypatch.setattr("tidelog.kernel.cli.log_format.set_up_logging", lambda *_: None)
    usual = gc.get_threshold()[0]
    tidelog.main(["serve", "--set", "storage=memory"], standalone_mode=False)
    assert seen == [RARE_OBJECTS, usual]
    assert gc.get_threshold()[0] == usual


def test_frozen_survivors_are_collected_in_small_portions() -> None:
    """However many objects a request makes, a full collection visits some 23,000 of them at most."""
    visited: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            visited.append(len(gc.get_objects()))

    usual = gc.get_threshold()
    gc.callbacks.insert(0, note)
    try:
        with frozen_survivors():
            alive = [Cycle() for _ in range(MANY)]
    finally:
        gc.callbacks.remove(note)
        gc.unfreeze()
    assert len(alive) == MANY
    assert gc.get_threshold() == usual
    assert len(visited) > MANY // 25_000 / 2
    # Each has its dictionary besides.
    assert max(visited) < 50_000


def test_rare_collections_end_with_the_full_ones_of_a_broker_that_runs() -> None:
    usual = gc.get_threshold()
    with ExitStack() as broker:
        with rare_collections():
            broker.enter_context(frozen_survivors())
        assert gc.get_threshold() == (*usual[:2], FEW_COLLECTIONS)
    assert gc.get_threshold() == usual
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_frozen_survivors_are_not_visited_again() -> None:
    with frozen_survivors():
        alive = [Cycle() for _ in range(MANY)]
        assert number_of_cycles() == MANY
        gc.collect()
        assert number_of_cycles() == 0
        frozen = gc.get_freeze_count()
        assert frozen > MANY
    alive.append(Cycle())
    gc.collect()
    assert number_of_cycles() == 1


@pytest.mark.usefixtures("collector")
def test_frozen_survivors_has_no_garbage_among_them() -> None:
    with frozen_survivors():
        gone = weakref.ref(Cycle())
        assert gone() is not None
        gc.collect()
        assert gone() is None


@pytest.mark.usefixtures("collector")
async def test_thaw_frees_what_became_garbage_while_it_was_frozen() -> None:
    thaw, last = thaw_with_garbage()
    gc.collect()
    assert last() is not None
    await thaw.run()
    assert last() is None


@pytest.mark.usefixtures("collector")
async def test_thaw_does_nothing_before_much_was_frozen() -> None:
    gc.freeze()
    thaw = Thaw()
    frozen = Cycle()
    last = weakref.ref(frozen)
    gc.freeze()
    del frozen
    await thaw.run()
    assert last() is not None


@pytest.mark.usefixtures("collector")
async def test_thaw_waits_for_an_idle_moment() -> None:
    thaw, last = thaw_with_garbage()
    alive: list[bool] = []

    async def answer() -> None:
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
            alive.append(last() is not None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await thaw.run()
    assert last() is None
    assert alive == [True] * 1000


@pytest.mark.usefixtures("collector")
async def test_thaw_waits_half_its_interval_for_a_busy_broker(mock_clock: MockClock) -> None:
    thaw, last = thaw_with_garbage()

    async def answer() -> None:
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
        assert last() is not None
        mock_clock.jump(THAW_INTERVAL_MS / 2000)
        while last() is not None:
            await trio.lowlevel.checkpoint()

    with trio.fail_after(THAW_INTERVAL_MS / 1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await thaw.run()


def thaw_with_garbage() -> tuple[Thaw, weakref.ref[Cycle]]:
    """It, when as much again was frozen and became garbage; and a reference to some of that."""
    gc.freeze()
    thaw = Thaw()
    alive = [Cycle() for _ in range(gc.get_freeze_count())]
    last = weakref.ref(alive[-1])
    gc.freeze()
    return thaw, last


def number_of_cycles() -> int:
    """Those that a collection visits."""
    return sum(isinstance(found, Cycle) for found in gc.get_objects())


async def test_serve_freezes_survivors_until_it_ends() -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "storage": "memory"}
    config, plugins = configure(Sources().over(settings_from_mapping(settings)))
    alive: list[Cycle] = []
    visited: list[int] = []

    def ready(broker: Broker) -> None:
        alive.extend(Cycle() for _ in range(1000))
        gc.collect()
        visited.append(number_of_cycles())
        assert broker.tasks.statistics()["garbage-collector"].failures == 0
        os.kill(os.getpid(), signal.SIGTERM)

    before = list(gc.callbacks)
    try:
        with trio.fail_after(DEADLINE_S):
            await serve(config, plugins, on_ready=ready)
        alive.append(Cycle())
        gc.collect()
        visited.append(number_of_cycles())
    finally:
        gc.unfreeze()
    assert visited == [0, 1]
    assert gc.callbacks == before
