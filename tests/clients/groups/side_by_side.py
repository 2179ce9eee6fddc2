"""A scenario with several clients side by side: they mostly wait for sessions, polls and backoffs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError

if TYPE_CHECKING:
    from .kinds import Kind

Meet = Callable[[], object]
Scenario = Callable[["Kind", Meet], None]


def nothing() -> None:
    """All that happens when clients meet."""


def with_each(
    kinds: Sequence[Kind],
    scenario: Scenario,
    *,
    between: Callable[[], None] = nothing,
    at_once: int | None = None,
) -> None:
    """Run the scenario for each client, in a thread.

    The second argument of the scenario is a function in which each waits for all others; once they are there,
    `between` runs. Scenarios that call it have to run all at once.

    Raises:
        PeerUnavailableError: a client cannot be had, after the others have been tried.
        Exception: what failed, with a note that names the client.
    """
    missing: list[PeerUnavailableError] = []
    there = [kind for kind in kinds if _is_there(kind, missing)]
    barrier = threading.Barrier(len(there) or 1, between)

    def run(kind: Kind) -> None:
        try:
            scenario(kind, lambda: barrier.wait(DEADLINE_S))
        except BaseException as error:
            error.add_note(f"with {kind.name}")
            barrier.abort()
            raise

    with ThreadPoolExecutor(at_once or len(kinds)) as pool:
        runs = [pool.submit(run, kind) for kind in there]
    errors = [error for each in runs if (error := each.exception()) is not None]
    # Whoever waited for the one that failed has nothing to tell.
    causes = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)] or errors
    if len(causes) > 1:
        raise BaseExceptionGroup("with several clients", causes)
    for error in (*causes, *missing):
        raise error


def _is_there(kind: Kind, missing: list[PeerUnavailableError]) -> bool:
    """Fetch and build what the client needs, if that has not been done."""
    try:
        kind.command([])
    except PeerUnavailableError as error:
        missing.append(error)
        return False
    return True
