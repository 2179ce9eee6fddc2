"""The command line of a soak."""

from __future__ import annotations

from pathlib import Path

import click

from tests.peers import PeerUnavailableError, find_java
from tests.seeded_run import folder_option, seed_option, seeded_run

from .run import Soak


def _has_java() -> bool:
    try:
        find_java("the Java client")
    except PeerUnavailableError as error:
        click.echo(f"{error}; the Java clients are left out", err=True)
        return False
    return True


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=5.0, show_default=True)
@seed_option
@folder_option
@click.option(
    "--java/--no-java", default=None, help="With Java clients or without.  [default: if Java is there]"
)
def main(minutes: float, seed: int | None, folder: Path | None, java: bool | None) -> None:
    """Let real clients work while the broker is killed, cut off its power, paused and changed; then check.

    The exit status is 0 when everything that was acknowledged was read back, exactly once and in order,
    every group read every record, compaction and retention removed what they should and nothing else, and
    the broker's log, memory and open files show no trouble.
    """
    with seeded_run("soak", f"--minutes {minutes:g}", seed, folder) as run:
        soak = Soak(run.folder, run.seed, _has_java() if java is None else java, run.report)
        soak.run(minutes * 60)
        run.report("events: " + ", ".join(f"{count} {name}" for name, count in sorted(soak.events.items())))
        run.report(f"{soak.refused} changes met a broker that was away")


if __name__ == "__main__":
    main()
