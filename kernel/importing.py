"""Imports while a broker runs, in a thread that leaves the interpreter's lock to the event loop soon.

What a broker without data does not need is imported at its first use, so that a start takes a third of
the time, and memory is taken only for what is used. Such an import takes up to a tenth of a second, so it
never runs on the event loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import trio

T = TypeVar("T")

SWITCH_SECONDS: Final = 0.0005
"""How long the event loop waits for the interpreter's lock meanwhile, at each of its calls of the system.

With Python's default of 5 ms a request of four such calls takes 20 ms longer while a thread imports.
"""


class _ShortSwitches:
    """The interpreter's switch interval while any thread imports; the event loop alone changes it."""

    def __init__(self) -> None:
        self._imports = 0
        self._usual = 0.0

    @contextmanager
    def hold(self) -> Generator[None]:
        """Shorten the interval until the block ends, and those of others that have begun meanwhile."""
        # The first that begins saves the usual interval, and the last that ends restores it, in whichever
        # order they end.
        if not self._imports:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(min(self._usual, SWITCH_SECONDS))
        self._imports += 1
        try:
            yield
        finally:
            self._imports -= 1
            if not self._imports:
                sys.setswitchinterval(self._usual)


_short_switches = _ShortSwitches()


async def import_in_thread(load: Callable[[], T]) -> T:
    """Return what `load` returns, which imports or compiles something, in a thread.

    It is completed even if the caller is cancelled: others may wait for the same module.
    """
    with _short_switches.hold():
        return await trio.to_thread.run_sync(load)
