"""`make mutants MODULE=…`: mutants of a module or a folder, and those that its quick tests let live."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import mutants_at, places_of, sample
from tests.mutation.page import Row, update_page
from tests.mutation.runner import BrokenBaselineError, Result, Worker, run_module, running_workers
from tests.mutation.targets import modules_under, quick_tests

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Return 0 if every mutant was killed, 1 if some live, 2 if the tests fail without a mutant."""
    options = parser().parse_intermixed_args()
    rows: list[Row] = []
    with running_workers(ROOT, options.jobs) as workers:
        for module in modules_under(options.module, ROOT):
            try:
                row = _one_module(module, workers, options)
            except BrokenBaselineError as error:
                print(error, file=sys.stderr)
                return 2
            if row is not None:
                rows.append(row)
    if updates_page(options):
        update_page(ROOT / "docs" / "testing.md", rows)
    return 0 if all(row.killed == row.tried for row in rows) else 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("module", type=Path, help="a module or a folder, such as kernel/partition")
    parser.add_argument("--jobs", type=int, default=1, help="tests that run at the same time")
    parser.add_argument("--at-most", type=int, help="so many mutants of each module only")
    parser.add_argument(
        "--line", action="append", type=int, help="only mutants of this line; may be repeated"
    )
    parser.add_argument("--update", action="store_true", help="write the figures into docs/testing.md")
    parser.add_argument("tests", nargs="*", help="test paths instead of the module's own")
    return parser


def updates_page(options: argparse.Namespace) -> bool:
    """Return whether the figures go into the page: only those of all lines and of the module's own tests."""
    return options.update and not options.line and not options.tests


def _one_module(module: Path, workers: Sequence[Worker], options: argparse.Namespace) -> Row | None:
    source = (ROOT / module).read_text()
    every = places_of(source)
    places = [
        place for place in sample(every, options.at_most) if not options.line or place.line in options.line
    ]
    mutants = list(mutants_at(source, places))
    if not mutants:
        return None
    results: list[Result] = []
    for result in run_module(module, mutants, options.tests or quick_tests(module, ROOT), workers):
        results.append(result)
        if not result.killed:
            print(
                f"\n{module}:{result.mutant.line} {result.mutant.operator}\n{result.mutant.diff}", flush=True
            )
    killed = sum(result.killed for result in results)
    late = sum(result.timed_out for result in results)
    print(
        f"\n{module}: {len(results)} mutants, {killed} killed ({100 * killed / len(results):.0f} %), "
        f"{late} of them by time\n",
        flush=True,
    )
    return Row(str(module), len(every) - len(places) + len(results), len(results), killed)


if __name__ == "__main__":
    sys.exit(main())
