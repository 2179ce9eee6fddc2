"""The command line of the kills."""

from __future__ import annotations

from pathlib import Path

import click

from tests.seeded_run import folder_option, seed_option, seeded_run
from tests.spark_kills.run import Kills


@click.command()
@click.option("--kills", type=click.IntRange(min=0), default=50, show_default=True)
@seed_option
@folder_option
def main(kills: int, seed: int | None, folder: Path | None) -> None:
    """Kill a broker, Spark's driver and its Python workers at random, under queries that write exactly once.

    One query writes the records of a topic into Parquet files, another one what they become into a topic. The
    exit status is 0 when both have each record once.
    """
    with seeded_run("spark_kills", f"--kills {kills}", seed, folder) as run:
        Kills(run.folder, run.seed, run.report).run(kills)


if __name__ == "__main__":
    main()
