"""The command line: try the removals of one page, or of all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tests.mutation.runner import Worker, running_workers
from tests.mutation.worker import Run

from .pages import REMOVALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .removal import Removal

ROOT = Path(__file__).parents[2]
_SECONDS = 300.0
_BASELINE_SECONDS = 3600.0
_FAILED = 1
_DEADLINE_S = "20"
"""Of tests that wait for something: here it never comes."""


@click.command()
@click.option("--page", type=click.Choice(sorted(REMOVALS)), help="Of one page.  [default: of all]")
@click.option("--claim", default="", help="Only rows that contain this.")
def main(page: str | None, claim: str) -> None:
    """Take each behaviour that a checklist claims out of a copy of the code, and run the test that it names.

    The exit status is 0 when every test failed, 1 when one passed or could not be run: then the row claims
    what nothing proves. It is 1, too, when one of the tests fails without any removal.
    """
    os.environ.setdefault("TEST_DEADLINE_S", _DEADLINE_S)
    os.environ["TIDELOG_PURE"] = "1"  # what is compiled would not notice
    chosen = [
        each for name in ([page] if page else REMOVALS) for each in REMOVALS[name] if claim in each.claim
    ]
    unproven = 0
    with running_workers(ROOT, 1) as (worker,):
        _check_baseline(worker, chosen)
        for number, removal in enumerate(chosen, 1):
            problem = _problem(worker, removal)
            unproven += problem is not None
            click.echo(f"[{number}/{len(chosen)}] {removal.claim}: {problem or 'proven'}")
    click.echo(f"{len(chosen) - unproven} of {len(chosen)} claims are proven")
    sys.exit(1 if unproven else 0)


def _check_baseline(worker: Worker, removals: Sequence[Removal]) -> None:
    """Run the tests on the code as it is: what fails anyway proves nothing.

    Raises:
        ClickException: one of them fails.
    """
    tests = sorted({f"tests/{removal.test}" for removal in removals})
    if tests:
        module = removals[0].module
        text = (ROOT / module).read_text(encoding="utf-8")
        outcome = worker.run(Run(module, text, tests, [], _BASELINE_SECONDS, _BASELINE_SECONDS))
        if outcome.code:
            raise click.ClickException(f"a test fails without any removal:\n{outcome.output}")


def _problem(worker: Worker, removal: Removal) -> str | None:
    """Why the removal proves nothing; None when its test failed as it has to."""
    text = removal.removed_from((ROOT / removal.module).read_text(encoding="utf-8"))
    tests = [f"tests/{removal.test}"]
    outcome = worker.run(Run(removal.module, text, tests, [], _SECONDS, _SECONDS))
    if outcome.code == 0:
        return f"NOT PROVEN: {removal.test} passes without it ({removal.module})"
    if outcome.code != _FAILED:
        return f"NOT RUN (status {outcome.code}): {removal.test}\n{outcome.output[-1000:]}"
    return None


if __name__ == "__main__":
    main()
