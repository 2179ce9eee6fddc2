"""Long random runs from the command line, such as `make soak`: seed, folder, report."""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import attrs
import click

seed_option = click.option("--seed", type=int, help="What happens, and when.  [default: a new one, printed]")
folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), help="Everything is in there, and stays."
)


@attrs.frozen
class SeededRun:
    """What a run is given: its seed, the folder of its files, and where its lines go."""

    seed: int
    folder: Path
    report: Callable[[str], None]


@contextmanager
def seeded_run(name: str, arguments: str, seed: int | None, folder: Path | None) -> Generator[SeededRun]:
    """Yield a run of the module `tests.NAME` with `arguments`, and report how it ended.

    Without `seed` a new one is drawn. Without `folder` a temporary one is made, which is removed when the run
    passed. An AssertionError is reported with the command that repeats the run, and ends the process with 1.
    """
    started = time.monotonic()

    def report(line: str) -> None:
        click.echo(f"{time.monotonic() - started:7.1f} s  {line}")

    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    place = folder or Path(mkdtemp(prefix=f"tidelog-{name.replace('_', '-')}-"))
    place.mkdir(parents=True, exist_ok=True)
    report(f"seed {seed}, {arguments}, in {place}")
    try:
        yield SeededRun(seed, place, report)
    except AssertionError as error:
        report(f"FAILED: {error}")
        report(f"again: python -m tests.{name} {arguments} --seed {seed}; everything is in {place}")
        sys.exit(1)
    report("passed")
    if folder is None:
        shutil.rmtree(place)
