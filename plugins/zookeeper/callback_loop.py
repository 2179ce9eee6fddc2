"""What runs a client of ZooKeeper beside other things and calls back, whatever loop or thread it is."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class LoopTimer(Protocol):
    """A call in the future."""

    def cancel(self) -> None:
        """Do not call."""
        ...


class CallbackLoop(Protocol):
    """Calls one function after the other; all but `post` is called in it, and nothing here waits."""

    def clock(self) -> float:
        """Return the seconds of a clock that never goes back."""
        ...

    def call_at(self, when: float, call: Callable[[], None]) -> LoopTimer:
        """Call at a time of `clock`."""
        ...

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], done: Callable[[T | Exception], None]) -> None:
        """Run a coroutine that awaits a client of ZooKeeper alone, beside the loop; call `done` in it."""
        ...

    def post(self, call: Callable[[], None]) -> None:
        """Call soon; any thread may call this."""
        ...
