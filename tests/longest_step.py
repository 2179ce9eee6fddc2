"""How long one step of one task holds the event loop, in CPU time."""

from __future__ import annotations

from contextlib import contextmanager
from time import thread_time
from typing import TYPE_CHECKING

import trio
from trio.abc import Instrument

if TYPE_CHECKING:
    from collections.abc import Generator


class LongestStep(Instrument):
    """The longest step so far in milliseconds, and the name of its task."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.task = ""
        self._began = thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has its turn."""
        self._began = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """It had its turn."""
        held = (thread_time() - self._began) * 1000
        if held > self.ms:
            self.ms, self.task = held, task.name


@contextmanager
def longest_step() -> Generator[LongestStep]:
    """Measure the steps of this event loop until the block ends."""
    longest = LongestStep()
    trio.lowlevel.add_instrument(longest)
    try:
        yield longest
        # The present step has not ended yet.
        longest.after_task_step(trio.lowlevel.current_task())
    finally:
        trio.lowlevel.remove_instrument(longest)
