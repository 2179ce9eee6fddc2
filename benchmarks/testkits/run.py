"""Running the tests with one server after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from .kit import CannotBeDoneError

if TYPE_CHECKING:
    from .kit import Kit
    from .scenarios import Scenario


@attrs.frozen
class Done:
    """A test that passed, and its seconds."""

    seconds: float


@attrs.frozen
class Lacking:
    """A test that the server cannot do, and why."""

    reason: str


Outcome: TypeAlias = Done | Lacking


@attrs.frozen
class KitResult:
    """What the tests took with one kind of server, by their names; a start alone took `start_s` seconds."""

    kit: type[Kit]
    start_s: float
    outcomes: Sequence[tuple[str, Outcome]]

    @property
    def done(self) -> int:
        """How many tests passed."""
        return sum(isinstance(outcome, Done) for _, outcome in self.outcomes)

    @property
    def total_s(self) -> float:
        """The seconds of all tests that passed."""
        return sum(outcome.seconds for _, outcome in self.outcomes if isinstance(outcome, Done))


def run(
    kit: type[Kit], scenarios: Sequence[Scenario], report: Callable[[str, Outcome], None], repeats: int = 1
) -> KitResult:
    """Run tests with a server of that kind; the quickest of all repeats counts.

    Raises:
        Exception: a test failed that the kind does not say to lack.
    """
    if not kit.is_shared:
        # The first one imports and compiles, and what it builds stays for the others.
        with kit():
            pass
    began = time.perf_counter()
    with kit() as first:
        start_s = time.perf_counter() - began
        shared = first if kit.is_shared else None
        outcomes = [_outcome(kit, each, shared, report, repeats) for each in scenarios]
    return KitResult(kit, start_s, outcomes)


def _outcome(
    kit: type[Kit],
    scenario: Scenario,
    shared: Kit | None,
    report: Callable[[str, Outcome], None],
    repeats: int,
) -> tuple[str, Outcome]:
    name = scenario.__name__
    if name in kit.lacks:
        found: Outcome = Lacking(kit.lacks[name])
    else:
        try:
            # Topics of a shared server are there after the first time.
            times = 1 if shared is not None else repeats
            found = Done(min(_seconds(kit, scenario, shared) for _ in range(times)))
        except CannotBeDoneError as error:
            found = Lacking(str(error))
    report(name, found)
    return name, found


def _seconds(kit: type[Kit], scenario: Scenario, shared: Kit | None) -> float:
    began = time.perf_counter()
    if shared is not None:
        scenario(shared)
    else:
        with kit() as own:
            scenario(own)
    return time.perf_counter() - began
