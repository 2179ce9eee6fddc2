"""How long tests wait for real processes, threads and sockets."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# With other work a machine may need a hundred times as long, and a deadline that is met costs nothing.
# Commands that expect tests to fail set a shorter one.
DEADLINE_S: Final = float(os.environ.get("TEST_DEADLINE_S", "300"))
# What comes at once is seen at once, and a wait of minutes leaves the processor to what it is for.
_SHORTEST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.05
_PART_OF_WAIT: Final = 0.02
_REFUSED_PAUSE_S: Final = 0.1


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Block until the condition holds.

    Raises:
        AssertionError: it does not within `DEADLINE_S`; the message names `what`.
    """
    began = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began
        assert waited_s < DEADLINE_S, f"{what} did not come true within {DEADLINE_S:.0f} s"
        time.sleep(min(_SHORTEST_PAUSE_S + waited_s * _PART_OF_WAIT, _LONGEST_PAUSE_S))


async def until(condition: Callable[[], object], what: str) -> None:
    """Return when something holds that the event loop does, and that has no event.

    Raises:
        AssertionError: it does not within `DEADLINE_S`; the message names `what`.
    """
    with trio.move_on_after(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 there is no event, as said
            await trio.sleep(_SHORTEST_PAUSE_S)
        return
    raise AssertionError(f"{what} did not come true within {DEADLINE_S:.0f} s")


def repeat_while_refused(action: Callable[[], T], refusal: type[Exception]) -> T:
    """Repeat what a broker refuses that has just started, and return its result.

    Raises:
        Exception: the last refusal, when it is still refused after `DEADLINE_S`.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return action()
        except refusal:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_REFUSED_PAUSE_S)
