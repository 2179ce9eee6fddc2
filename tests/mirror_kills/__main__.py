"""The command line of the kills."""

from __future__ import annotations

from pathlib import Path

import click

from tests.mirror_kills.run import MirrorKills
from tests.seeded_run import folder_option, seed_option, seeded_run


@click.command()
@click.option("--kills", type=click.IntRange(min=0), default=50, show_default=True)
@seed_option
@folder_option
def main(kills: int, seed: int | None, folder: Path | None) -> None:
    """Kill two mirrors and the three brokers between which they copy, at random, while records are written.

    The exit status is 0 when all three have the same committed records, and no translated offset of a group
    skips one.
    """
    with seeded_run("mirror_kills", f"--kills {kills}", seed, folder) as run:
        MirrorKills(run.folder, run.seed, run.report).run(kills)


if __name__ == "__main__":
    main()
