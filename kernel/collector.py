"""The garbage collector of a process that is a broker.

A full collection visits every live object, in one step that delays all requests: tens of milliseconds
with a thousand topics. A broker's objects are long-lived, and nearly all garbage is freed at once by its
reference counts. So what survives a full collection is frozen: the next one visits only what came since.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from tidelog.kernel.seams.tasks import PeriodicTask

RARE_OBJECTS: Final = 100_000
"""More than a start without data makes; one that reads a lot of it is still rid of its garbage."""
THAW_INTERVAL_MS: Final = 600_000
GROWTH_BEFORE_THAW: Final = 1.5
IDLE_SECONDS: Final = 0.02


@contextmanager
def rare_collections() -> Generator[None]:
    """Collect rarely during a start: nearly all that it makes stays, and visiting it only takes time."""
    usual = gc.get_threshold()
    gc.set_threshold(RARE_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextmanager
def frozen_survivors() -> Generator[None]:
    """Freeze the objects that exist now, and what survives each full collection until the block ends."""
    gc.freeze()
    gc.callbacks.append(_freeze_after_full_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(_freeze_after_full_collection)


def _freeze_after_full_collection(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


class Thaw:
    """Frees garbage in cycles that were frozen before they became garbage."""

    def __init__(self) -> None:
        self._frozen = gc.get_freeze_count()

    async def run(self) -> None:
        """Collect among frozen objects too, if they are half as many again as after the last time.

        This visits everything, so it waits for a moment without requests, for up to half the interval.
        """
        if gc.get_freeze_count() < GROWTH_BEFORE_THAW * self._frozen:
            return
        # Not at the top: `tidelog serve --help` needs neither.
        import trio
        from trio.testing import wait_all_tasks_blocked

        with trio.move_on_after(THAW_INTERVAL_MS / 2000):
            await wait_all_tasks_blocked(IDLE_SECONDS)
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._frozen = gc.get_freeze_count()


def thaw_task() -> PeriodicTask:
    """Return the background task that keeps frozen garbage from piling up."""
    return PeriodicTask("garbage-collector", Thaw().run, THAW_INTERVAL_MS, THAW_INTERVAL_MS)
