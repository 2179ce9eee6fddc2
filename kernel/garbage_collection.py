"""The garbage collector of a process that is a broker.

A full collection visits every live object, in one step that delays all requests: tens of milliseconds
with a thousand topics. A broker's objects are long-lived, and nearly all garbage is freed at once by its
reference counts. So what survives a full collection is frozen: the next one visits only what came since.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from tidelog.kernel.seams.tasks import PeriodicTask

RARE_OBJECTS: Final = 100_000
"""More than a start without data makes; one that reads a lot of it is still rid of its garbage."""
FEW_COLLECTIONS: Final = (2, 1)
"""How many collections of the youngest generation pass between two of the middle one, and of that between two
full ones: after each 700 new objects, 2,100 and 4,200.

A full one then takes about a millisecond, a tenth of what it takes with Python's 10 and 10, where up to
77,000 objects that a request of a large cluster has just made are visited. All together take no longer: since
survivors are frozen, each object is visited at most three times.
"""
THAW_INTERVAL_MS: Final = 60_000
GROWTH_BEFORE_THAW: Final = 1.5


@contextmanager
def rare_collections() -> Generator[None]:
    """Collect rarely during a start: nearly all that it makes stays, and visiting it only takes time."""
    usual, *others = gc.get_threshold()
    gc.set_threshold(RARE_OBJECTS, *others)
    try:
        yield
    finally:
        # Only the first one: the other ones may be those of `frozen_survivors` by now.
        gc.set_threshold(usual, *gc.get_threshold()[1:])


@contextmanager
def frozen_survivors() -> Generator[None]:
    """Freeze the objects that exist now, and what survives each full collection until the block ends.

    There are full collections often, so that each has few objects to visit.
    """
    gc.freeze()
    gc.callbacks.append(_freeze_after_full_collection)
    first, *usual = gc.get_threshold()
    # The first one is left alone: `rare_collections` may be in effect around this.
    gc.set_threshold(first, *map(min, usual, FEW_COLLECTIONS))
    try:
        yield
    finally:
        gc.set_threshold(gc.get_threshold()[0], *usual)
        gc.callbacks.remove(_freeze_after_full_collection)


def _freeze_after_full_collection(phase: str, info: Mapping[str, int]) -> None:
    # After a full collection only survivors are left; a younger one leaves objects that may soon be garbage.
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


class Thaw:
    """Frees garbage in cycles that were frozen before they became garbage.

    The broker itself makes none: what it is done with is freed by reference counts. A plugin may.
    """

    def __init__(self, is_unused: Callable[[], bool]) -> None:
        """`is_unused()`: whether the broker has no clients that would have to wait."""
        self._is_unused = is_unused
        self._blocks = sys.getallocatedblocks()

    def run(self) -> None:
        """Collect among frozen objects too, if there are half as many again as after the last time.

        This visits everything in one step, a second with 50,000 partitions: not while there are clients.
        """
        if sys.getallocatedblocks() < GROWTH_BEFORE_THAW * self._blocks or not self._is_unused():
            return
        # Frozen objects are invisible to a collection, so all are thawed for this one.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._blocks = sys.getallocatedblocks()


def thaw_task(is_unused: Callable[[], bool]) -> PeriodicTask:
    """Return the background task that keeps frozen garbage from piling up; see `Thaw`."""
    thaw = Thaw(is_unused)

    async def run() -> None:
        thaw.run()

    return PeriodicTask("garbage-collector", run, THAW_INTERVAL_MS, THAW_INTERVAL_MS)
