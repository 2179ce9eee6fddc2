"""`python -m benchmarks.testkits`, from the root of a checkout."""

from __future__ import annotations

from typing import Any

import click

from tests.peers import PeerUnavailableError

from .kafka_kit import KafkaKit
from .kfake_kit import KfakeKit
from .mock_kit import MockKit
from .page import PAGE, page
from .run import Done, Outcome, run
from .scenarios import SCENARIOS
from .tidelog_kit import TidelogKit

_KITS: dict[str, type[Any]] = {"tidelog": TidelogKit, "kafka": KafkaKit, "mock": MockKit, "kfake": KfakeKit}


@click.command()
@click.option("--kit", "kits", type=click.Choice(list(_KITS)), multiple=True, help="Only that; repeatable.")
@click.option("--test", "tests", multiple=True, metavar="NAME", help="Only tests with that name; repeatable.")
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="The quickest counts.")
@click.option("--write/--no-write", default=None, help=f"Write docs/{PAGE.name}; by default if all were run.")
def main(kits: tuple[str, ...], tests: tuple[str, ...], repeat: int, write: bool | None) -> None:
    """Run the same tests with tidelog, Apache Kafka, librdkafka's mock and kfake."""
    chosen = [each for each in SCENARIOS if not tests or each.__name__ in tests]
    if len(chosen) < len(tests):
        raise click.UsageError(f"tests are {', '.join(each.__name__ for each in SCENARIOS)}")
    results = []
    for name, kit in _KITS.items():
        if kits and name not in kits:
            continue
        click.echo(kit.title)
        try:
            results.append(run(kit, chosen, _report, repeat))
        except PeerUnavailableError as error:
            click.echo(f"  {error}", err=True)
            write = False
    if write or (write is None and not kits and not tests):
        PAGE.write_text(page(results))


def _report(name: str, outcome: Outcome) -> None:
    text = f"{outcome.seconds:8.2f} s" if isinstance(outcome, Done) else f"         - {outcome.reason}"
    click.echo(f"  {name:42}{text}")


if __name__ == "__main__":
    main()
