"""The command line of a soak."""

from __future__ import annotations

import random
import shutil
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import click

from tests.peers import PeerUnavailableError, find_java

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
@click.option("--seed", type=int, help="The schedule of events.  [default: a new one, printed]")
@click.option("--folder", type=click.Path(path_type=Path), help="Everything is in there, and stays.")
@click.option(
    "--java/--no-java", default=None, help="With Java clients or without.  [default: if Java is there]"
)
def main(minutes: float, seed: int | None, folder: Path | None, java: bool | None) -> None:
    """Let real clients work while the broker is killed, cut off its power, paused and changed; then check.

    The exit status is 0 when everything that was acknowledged was read back, exactly once and in order,
    every group read every record, compaction and retention removed what they should and nothing else, and
    the broker's log, memory and open files show no trouble.
    """
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    place = folder or Path(mkdtemp(prefix="tidelog-soak-"))
    place.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def report(line: str) -> None:
        click.echo(f"{time.monotonic() - started:7.1f} s  {line}")

    report(f"seed {seed}, {minutes:g} minutes, in {place}")
    soak = Soak(place, seed, _has_java() if java is None else java, report)
    try:
        soak.run(minutes * 60)
    except AssertionError as error:
        report(f"FAILED: {error}")
        report(
            f"again: python -m tests.soak --minutes {minutes:g} --seed {seed}; logs and data are in {place}"
        )
        sys.exit(1)
    report("events: " + ", ".join(f"{count} {name}" for name, count in sorted(soak.events.items())))
    report(f"passed; {soak.refused} changes met a broker that was away")
    if folder is None:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
