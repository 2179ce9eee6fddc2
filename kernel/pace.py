"""Long work on the event loop, in steps, so that others have their turn in between."""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter
from typing import Final, TypeVar

import trio

T = TypeVar("T")

STEP_SECONDS: Final = 0.004
"""How long work goes on before others have their turn: about as long as some dozen requests take."""


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
