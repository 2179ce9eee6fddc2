"""The garbage collector is held back while a broker starts, and visits only what is new while it runs."""

from __future__ import annotations

import gc
import os
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import trio

from tests.deadlines import DEADLINE_S, until
from tidelog.kernel.broker import Broker, serve
from tidelog.kernel.cli.main import tidelog
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.garbage_collection import (
    FEW_COLLECTIONS,
    RARE_OBJECTS,
    Thaw,
    frozen_survivors,
    rare_collections,
    thaw_task,
)
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.tasks import PeriodicTask

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
    """However many objects a request makes, a full collection visits some 4,200 of them at most."""
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
    assert len(visited) > MANY // 5_000 / 2
    # Each has its dictionary besides.
    assert max(visited) < 10_000


def test_rare_collections_end_with_the_full_ones_of_a_broker_that_runs() -> None:
    usual = gc.get_threshold()
    with ExitStack() as broker:
        with rare_collections():
            broker.enter_context(frozen_survivors())
        assert gc.get_threshold() == (usual[0], *FEW_COLLECTIONS)
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


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch, collector: None) -> list[int]:
    """How many blocks of memory the process has, in place of the real number; the collector as above."""
    blocks = [1000]
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks[0])
    return blocks


def frozen_garbage() -> weakref.ref[Cycle]:
    """A reference to something that became garbage after it had been frozen."""
    frozen = Cycle()
    gc.freeze()
    return weakref.ref(frozen)


def test_thaw_frees_what_became_garbage_while_it_was_frozen(blocks: list[int]) -> None:
    thaw, last = Thaw(lambda: True), frozen_garbage()
    blocks[0] = 1500
    gc.collect()
    assert last() is not None
    thaw.run()
    assert last() is None


def test_thaw_does_nothing_before_there_is_half_as_much_again(blocks: list[int]) -> None:
    thaw, last = Thaw(lambda: True), frozen_garbage()
    blocks[0] = 1499
    thaw.run()
    assert last() is not None


def test_thaw_compares_with_what_was_left_by_the_last_one(blocks: list[int]) -> None:
    thaw = Thaw(lambda: True)
    blocks[0] = 1500
    thaw.run()
    last = frozen_garbage()
    thaw.run()
    assert last() is not None


def test_thaw_waits_until_there_are_no_clients(blocks: list[int]) -> None:
    clients = [1]
    thaw, last = Thaw(lambda: not clients), frozen_garbage()
    blocks[0] = 1500
    thaw.run()
    assert last() is not None
    clients.clear()
    thaw.run()
    assert last() is None


def number_of_cycles() -> int:
    """Those that a collection visits."""
    return sum(isinstance(found, Cycle) for found in gc.get_objects())


SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "storage": "memory"}


async def test_serve_freezes_survivors_until_it_ends() -> None:
    config, plugins = configure(Sources().over(settings_from_mapping(SETTINGS)))
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


async def test_a_broker_that_serves_is_unused_while_no_client_is_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conditions: list[Callable[[], bool]] = []

    def noting_condition(is_unused: Callable[[], bool]) -> PeriodicTask:
        conditions.append(is_unused)
        return thaw_task(is_unused)

    async def use(port: int) -> None:
        (is_unused,) = conditions
        assert is_unused()
        async with await trio.open_tcp_stream("127.0.0.1", port):
            await until(lambda: not is_unused(), "the client is connected")
        await until(is_unused, "the client has left")
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("tidelog.kernel.broker.thaw_task", noting_condition)
    config, plugins = configure(Sources().over(settings_from_mapping(SETTINGS)))
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            await serve(
                config,
                plugins,
                on_ready=lambda broker: nursery.start_soon(
                    use, int(broker.listeners["PLAINTEXT"].rsplit(":")[-1])
                ),
            )
    gc.unfreeze()
