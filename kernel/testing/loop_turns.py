"""How long what a suite calls holds the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Final, cast

import trio

MOST_BLOCKING_SECONDS: Final = 0.25
"""A call takes at most as long, at best of three times: all connections wait meanwhile."""
_TIMES: Final = 3


async def longest_turn(call: Callable[[], object]) -> tuple[float, Any]:
    """Call, and await the result if that is to be awaited.

    Returns:
        The seconds of the longest turn in which the event loop served only that, and the result.
    """
    turns = _Turns(trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(turns)
    try:
        result = call()
        if isinstance(result, Awaitable):
            result = await cast("Awaitable[object]", result)
        # The last turn ends with the next checkpoint.
        await trio.lowlevel.checkpoint()
    finally:
        trio.lowlevel.remove_instrument(turns)
    return turns.longest, result


async def holds_the_loop(call: Callable[[], object]) -> bool:
    """Return whether a call holds the event loop too long each time; the first ones may import."""
    for _ in range(_TIMES):
        seconds, _result = await longest_turn(call)
        if seconds <= MOST_BLOCKING_SECONDS:
            return False
    return True


class _Turns(trio.abc.Instrument):
    """Measures the longest turn of one task, from now on."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.longest = 0.0
        self._task = task
        self._began = perf_counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._began = perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self.longest = max(self.longest, perf_counter() - self._began)
