"""How often other tasks run beside work that is done in steps."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@attrs.define
class Turns:
    """The number of turns of another task."""

    count: int = 0


@asynccontextmanager
async def turns_of_another_task() -> AsyncGenerator[Turns]:
    """Count the turns of a task that runs until the block ends."""
    turns = Turns()

    async def take_turns() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            turns.count += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        yield turns
        nursery.cancel_scope.cancel()
