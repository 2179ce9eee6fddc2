"""The command line of the rounds."""

from __future__ import annotations

from pathlib import Path

import click

from tests.seeded_run import folder_option, seed_option, seeded_run

from .run import Hands


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True)
@seed_option
@folder_option
def main(rounds: int, seed: int | None, folder: Path | None) -> None:
    """Give one data directory to tidelog and to Apache Kafka in turn, under clients that live on.

    A round is a turn of each. Before and after every change of hands everything is compared: records, topics,
    groups and transactions by reading, by the admin client and by Kafka's tools, files by DumpLogSegments.
    The exit status is 0 without a difference.
    """
    with seeded_run("hands", f"--rounds {rounds}", seed, folder) as run:
        Hands(run.folder, run.seed, run.report).run(rounds)


if __name__ == "__main__":
    main()
