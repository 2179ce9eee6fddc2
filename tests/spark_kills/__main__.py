"""The command line of the kills."""

from __future__ import annotations

import random
import shutil
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import click

from tests.spark_kills.run import Kills


@click.command()
@click.option("--kills", type=click.IntRange(min=0), default=50, show_default=True)
@click.option("--seed", type=int, help="What is killed, and when.  [default: a new one, printed]")
@click.option("--folder", type=click.Path(path_type=Path), help="Everything is in there, and stays.")
def main(kills: int, seed: int | None, folder: Path | None) -> None:
    """Kill a broker, Spark's driver and its Python workers at random, under queries that write exactly once.

    One query writes the records of a topic into Parquet files, another one what they become into a topic. The
    exit status is 0 when both have each record once.
    """
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    place = folder or Path(mkdtemp(prefix="tidelog-spark-kills-"))
    place.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def report(line: str) -> None:
        click.echo(f"{time.monotonic() - started:7.1f} s  {line}")

    report(f"seed {seed}, {kills} kills, in {place}")
    try:
        Kills(place, seed, report).run(kills)
    except AssertionError as error:
        report(f"FAILED: {error}")
        report(f"again: python -m tests.spark_kills --kills {kills} --seed {seed}; everything is in {place}")
        sys.exit(1)
    report("passed")
    if folder is None:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
