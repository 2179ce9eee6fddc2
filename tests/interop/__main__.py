"""The command line of the suite."""

from __future__ import annotations

import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .clients import CLIENTS
from .page import PAGE, RESULTS, render
from .results import FAILS, Cell, Results
from .run import ClientRun, running_server
from .scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .client import Client


def _chosen(names: str) -> list[Client]:
    """Return the clients whose name begins with one of the names, all without any."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    found = [each for each in CLIENTS if not wanted or any(each.name.startswith(name) for name in wanted)]
    if not found:
        raise click.BadParameter(f"no client's name begins with one of {wanted}", param_hint="--clients")
    return found


@click.command()
@click.option("--server", type=click.Choice(["tidelog", "kafka"]), default="tidelog", show_default=True)
@click.option(
    "--clients", default="", help='Beginnings of names, such as "kafka-clients 0.,kcat".  [default: all]'
)
@click.option("--only", default="", help="Run the scenarios whose name contains this.")
@click.option("--page/--no-page", default=True, help="Add the results to docs/interop.md or only print them.")
def main(server: str, clients: str, only: str, page: bool) -> None:
    """Run the scenarios with real clients and write the matrix.

    Results of earlier runs stay, those of the chosen clients are replaced. The exit status is 1 if a
    scenario fails with tidelog.
    """
    results = Results(RESULTS)
    failed = 0
    for kafka, some in groupby(_chosen(clients), lambda each: "" if server == "tidelog" else each.kafka):
        failed += _run_with(server, kafka, list(some), only, results, page)
    if page:
        PAGE.write_text(render(results, CLIENTS), encoding="utf-8")
    sys.exit(1 if failed and server == "tidelog" else 0)


def _run_with(
    server: str, kafka: str, clients: Sequence[Client], only: str, results: Results, page: bool
) -> int:
    """Run clients against one server; return the number of scenarios that failed."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, running_server(server, kafka, Path(folder)) as broker:
        for number, client in enumerate(clients):
            scenarios = [
                each for each in client.scenarios or SCENARIOS if only in f"{each.section}: {each.name}"
            ]
            run = ClientRun(client, broker.bootstrap, Path(folder, f"driver-{number}.log"))
            with click.progressbar(length=len(scenarios), label=f"{client.name:32}", file=sys.stderr) as bar:

                def report(name: str, scenario: str, cell: Cell) -> None:
                    results.put(server, name, scenario, cell)
                    bar.update(1)
                    if cell.outcome == FAILS:
                        failures.append(f"{name}, {scenario}: {cell.reason}")

                run.run(scenarios, report)
            if page:
                results.save()
    click.echo("\n".join(failures))
    return len(failures)


if __name__ == "__main__":
    main()
