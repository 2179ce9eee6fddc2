"""Long work in steps, on the event loop or in a thread, so that other tasks run in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from time import perf_counter
from typing import Final, TypeVar

import trio

T = TypeVar("T")
R = TypeVar("R")

STEP_SECONDS: Final = 0.002
"""How long work continues before other tasks run: about as long as two dozen small requests take.

Two pieces of work that follow each other in one turn of the event loop, such as decoding a large request and
serving it, still hold it for less than 5 ms.
"""
ITEMS_PER_STEP: Final = 32
"""Cheap items between two looks at the clock, which take as long as one of them."""
HOLD_SECONDS: Final = 200e-6
"""How long a thread holds the interpreter's lock: releasing it takes nearly as long."""


class Pace:
    """The time limit of one step; work calls `turn` after each small piece."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + STEP_SECONDS

    def is_over(self) -> bool:
        """Return whether the step has taken `STEP_SECONDS`."""
        return perf_counter() >= self._until

    async def turn(self) -> None:
        """Execute a checkpoint if the step has taken `STEP_SECONDS`."""
        if perf_counter() >= self._until:
            await trio.lowlevel.checkpoint()
            self._until = perf_counter() + STEP_SECONDS


async def run_in_steps(steps: Generator[None, None, T], pace: Pace | None = None) -> T:
    """Run a generator that yields after each small piece of its work; return its result.

    With `pace` it shares the time limit of a step with what else has that: many short ones together are long.
    """
    pace = pace or Pace()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await pace.turn()


def run_to_end(steps: Generator[None, None, T]) -> T:
    """Run such a generator without letting anything else run; return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def each_in_steps(items: Iterable[T], make: Callable[[T], R]) -> Generator[None, None, list[R]]:
    """Return what `make` returns of each item; yield after some of them."""
    made: list[R] = []
    rest = iter(items)
    while some := [make(item) for item in islice(rest, ITEMS_PER_STEP)]:
        made += some
        yield
    return made


class ThreadPace:
    """When a thread releases the interpreter's lock for a moment; it calls `turn` after each small piece."""

    __slots__ = ("_hold_seconds", "_until")

    def __init__(self, hold_seconds: float = HOLD_SECONDS) -> None:
        self._hold_seconds = hold_seconds
        self._until = perf_counter() + hold_seconds

    def turn(self) -> None:
        """Release the lock, if the thread has held it for so long."""
        if perf_counter() >= self._until:
            yield_interpreter()
            self._until = perf_counter() + self._hold_seconds


def yield_interpreter() -> None:
    """Release the interpreter's lock for a moment."""
    time.sleep(0)
