"""The command line of the kills."""

from __future__ import annotations

from pathlib import Path

import click

from tests.load_kills.run import LoadKills
from tests.seeded_run import folder_option, seed_option, seeded_run


@click.command()
@click.option("--kills", type=click.IntRange(min=0), default=50, show_default=True)
@seed_option
@folder_option
def main(kills: int, seed: int | None, folder: Path | None) -> None:
    """Kill `tidelog load` with its JVM, without it, one of its Python workers, or the broker, at random.

    Whenever a load is complete its directory is compared with the topic, and another load begins. The exit
    status is 0 when each directory has each record once.
    """
    with seeded_run("load_kills", f"--kills {kills}", seed, folder) as run:
        LoadKills(run.folder, run.seed, run.report).run(kills)


if __name__ == "__main__":
    main()
