"""The command line of the rounds."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import click

from .run import Hands


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--seed", type=int, help="What is done, and how turns end.  [default: a new one, printed]")
@click.option("--folder", type=click.Path(path_type=Path), help="Everything is in there, and stays.")
def main(rounds: int, seed: int | None, folder: Path | None) -> None:
    """Give one data directory to tidelog and to Apache Kafka in turn, under clients that live on.

    A round is a turn of each. Before and after every change of hands everything is compared: records, topics,
    groups and transactions by reading, by the admin client and by Kafka's tools, files by DumpLogSegments.
    The exit status is 0 without a difference.
    """
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    place = folder or Path(mkdtemp(prefix="tidelog-hands-"))
    place.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def report(line: str) -> None:
        click.echo(f"{time.monotonic() - started:7.1f} s  {line}")

    report(f"seed {seed}, {rounds} rounds, in {place}")
    try:
        Hands(place, seed, report).run(rounds)
    except AssertionError as error:
        report(f"FAILED: {error}")
        report(f"again: python -m tests.hands --rounds {rounds} --seed {seed}; everything is in {place}")
        sys.exit(1)
    report("passed")


main()
