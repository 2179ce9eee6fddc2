"""Long work in steps, on the event loop or in a thread, so that others have their turn in between."""

from __future__ import annotations

import time
from collections.abc import Generator
from time import perf_counter
from typing import Final, TypeVar

import trio

T = TypeVar("T")

STEP_SECONDS: Final = 0.004
"""How long work continues before others have their turn: about as long as some dozen requests take."""
RECORDS_PER_TURN: Final = 200
"""Records that a thread decodes, in a fraction of a millisecond, before it calls `yield_interpreter`."""


class Pace:
    """When work has to make way; it asks `turn` after each small piece."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + STEP_SECONDS

    async def turn(self) -> None:
        """Let others have their turn, if they have waited for so long; a checkpoint only then."""
        if perf_counter() >= self._until:
            await trio.lowlevel.checkpoint()
            self._until = perf_counter() + STEP_SECONDS


async def run_in_steps(steps: Generator[None, None, T]) -> T:
    """Run a generator that yields after each small piece of its work; what it returns."""
    pace = Pace()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await pace.turn()


def yield_interpreter() -> None:
    """Release the interpreter's lock for a moment, in a thread that iterates over many records."""
    time.sleep(0)
