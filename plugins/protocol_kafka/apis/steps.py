"""Handlers that work in small steps, so that other connections are served in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from typing import TypeVar

import trio

from tidelog.kernel.pace import Pace, run_in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.schema.layout import FEW_ELEMENTS

R = TypeVar("R")
S = TypeVar("S")


def in_steps(
    handle: Callable[[RequestContext, R], Generator[None, None, S]],
) -> Callable[[RequestContext, R], S | Awaitable[S]]:
    """Return the handler of a generator function that yields after each small piece of its work.

    It returns the response, or an awaitable of it if the pieces are many or take long.
    """

    @wraps(handle)
    def handle_in_steps(context: RequestContext, request: R) -> S | Awaitable[S]:
        steps, pace = handle(context, request), Pace()
        for _ in range(FEW_ELEMENTS):
            try:
                next(steps)
            except StopIteration as done:
                response: S = done.value
                return response
            if pace.is_over():
                break
        return _further_steps(steps)

    return handle_in_steps


async def _further_steps(steps: Generator[None, None, S]) -> S:
    # Turns of their own: the first steps have taken one, and the encoder takes about as long.
    await trio.lowlevel.checkpoint()
    response = await run_in_steps(steps)
    await trio.lowlevel.checkpoint()
    return response
