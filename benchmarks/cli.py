"""The command line."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import attrs
import click
from rich.console import Console

from tests.peers import PeerUnavailableError, find_kafka

from .brokers import BaselineKind, KafkaKind, TidelogKind, python_of
from .effort import SMOKE, WHOLE, Effort
from .machine import machine_facts
from .plan import Plan
from .progress import Progress
from .report import document, print_report
from .run import Run
from .scenarios import DEFAULT_MATRIX, FULL_MATRIX, SMOKE_MATRIX, Bench
from .workspace import default_base, workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .brokers import BrokerKind

# One run's data, the one before it that is about to be deleted, and both brokers' metadata.
_DATA_SETS_HELD = 4
_WIDTH_OF_FILES = 180
_RESULTS = Path(__file__).parent / "results"

_EXAMPLES = """\b
Examples:
  python -m benchmarks                              about half an hour, beside Apache Kafka
  python -m benchmarks --smoke                      a few seconds, tidelog alone: does everything run?
  python -m benchmarks --only ready --only memory   some rows
  python -m benchmarks --only 'produce-1KB-16KB-*' --repeat 5
  python -m benchmarks --full --json figures.json   every shape of load
  python -m benchmarks --no-tidelog                 Apache Kafka alone
  python -m benchmarks --against-set socket.busy.poll.us=0    what a setting does
  python -m benchmarks --against-checkout ../before           what a change does
  python -m benchmarks --list                       the names of all rows
"""


@click.command(epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@click.option("--smoke", is_flag=True, help="Tiny sizes and no Kafka: a few seconds in total.")
@click.option("--full", is_flag=True, help="Every shape of throughput load, not the default eight.")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Rows by name, part of it or pattern; repeatable."
)
@click.option("--repeat", type=click.IntRange(min=1), help="Repeats of every row.  [default: 3]")
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Of one throughput run.  [default: 1.2]")
@click.option("--no-kafka", is_flag=True, help="Measure tidelog alone.")
@click.option("--no-tidelog", is_flag=True, help="Measure Apache Kafka alone.")
@click.option(
    "--against-set",
    multiple=True,
    metavar="KEY=VALUE",
    help="Compare with tidelog under this setting, not with Apache Kafka; repeatable.",
)
@click.option(
    "--against-checkout",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Compare with the tidelog of another checkout, in whose .venv `make test` has installed it.",
)
@click.option(
    "--against-pure", is_flag=True, help="Compare with tidelog as it runs where nothing is compiled."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Make the run's folder in there.  [default: memory if it has room, else temp]",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write everything measured to this file.  [default: benchmarks/results/TIME.json, none for --smoke]",
)
@click.option("--details", is_flag=True, help="Also show how busy client and broker were.")
@click.option("--list", "list_rows", is_flag=True, help="Show the names of the rows and leave.")
def main(
    smoke: bool,
    full: bool,
    only: tuple[str, ...],
    repeat: int | None,
    seconds: float | None,
    no_kafka: bool,
    no_tidelog: bool,
    against_set: tuple[str, ...],
    against_checkout: Path | None,
    against_pure: bool,
    data_dir: Path | None,
    json_path: Path | None,
    details: bool,
    list_rows: bool,
) -> None:
    """Measure tidelog beside Apache Kafka: same machine, same client, in alternation.

    Apache Kafka is fetched by Maven at the first use; without Java, Maven or a network tidelog is measured
    alone. docs/benchmarks.md tells what each row means. The exit status is 0 when everything could be
    measured, whatever the figures.
    """
    effort = _effort(smoke, repeat, seconds)
    plan = _plan(smoke, full, only, effort)
    if list_rows:
        click.echo("\n".join(row.name for row in plan.rows))
        return
    console = _console()
    # A broker that is installed has its bytecode; without it every start would compile everything again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _end_orderly_on_signals()
    baseline = _baseline(against_set, against_checkout, against_pure)
    if baseline is not None and (no_kafka or no_tidelog or smoke):
        raise click.UsageError("--against-* replaces Apache Kafka and goes with no --smoke and no --no-*")
    kinds: list[BrokerKind] = [TidelogKind(), baseline] if baseline else []
    kinds = kinds or _kinds(console, with_tidelog=not no_tidelog, with_kafka=not (no_kafka or smoke))
    started = datetime.now(UTC)
    with workspace(data_dir or default_base(_DATA_SETS_HELD * effort.most_bytes)) as folder:
        about = _about(started, effort, kinds, folder)
        results = Run(Bench(effort, folder), plan, kinds, Progress()).execute()
    about["seconds"] = round((datetime.now(UTC) - started).total_seconds(), 1)
    print_report(console, results, {kind.key: kind.title for kind in kinds}, details=details)
    path = json_path or (None if smoke else _RESULTS / f"{started:%Y%m%dT%H%M%SZ}.json")
    if path is not None:
        _write_json(path, document(results, about))
        console.print(f"Written to {path}", markup=False)
    sys.exit(1 if results.failures else 0)


def _plan(smoke: bool, full: bool, only: Sequence[str], effort: Effort) -> Plan:
    if smoke and full:
        raise click.UsageError("--smoke and --full exclude each other")
    plan = Plan.of(SMOKE_MATRIX if smoke else FULL_MATRIX if full else DEFAULT_MATRIX, effort)
    if not only:
        return plan
    try:
        return plan.only(only)
    except ValueError as error:
        hint = "" if full else " (--full knows more of them)"
        raise click.UsageError(f"{error}; `--list` shows their names{hint}") from error


def _effort(smoke: bool, repeat: int | None, seconds: float | None) -> Effort:
    effort = SMOKE if smoke else WHOLE
    return attrs.evolve(effort, repeats=repeat or effort.repeats, seconds=seconds or effort.seconds)


def _kinds(console: Console, *, with_tidelog: bool, with_kafka: bool) -> list[BrokerKind]:
    kinds: list[BrokerKind] = [TidelogKind()] if with_tidelog else []
    if with_kafka:
        try:
            kinds.append(KafkaKind(find_kafka()))
        except PeerUnavailableError as error:
            console.print(f"{error}. Going on without it.", style="yellow", markup=False)
    if not kinds:
        raise click.UsageError("that leaves no broker to measure")
    return kinds


def _baseline(settings: Sequence[str], checkout: Path | None, pure: bool) -> BaselineKind | None:
    """The tidelog to compare with, None when none is asked for."""
    if not settings and checkout is None and not pure:
        return None
    pairs = dict[str, str]()
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--against-set {setting!r} is not KEY=VALUE")
        pairs[key] = value
    if checkout is not None and not python_of(checkout).exists():
        raise click.UsageError(f"{python_of(checkout)} is not there: run `make test` in {checkout} first")
    return BaselineKind(pairs, checkout and checkout.absolute(), pure)


def _about(started: datetime, effort: Effort, kinds: Sequence[BrokerKind], folder: Path) -> dict[str, object]:
    return {
        "started": started.isoformat(timespec="seconds"),
        "effort": attrs.asdict(effort),
        "machine": machine_facts(folder),
        "brokers": {kind.key: kind.describe() for kind in kinds},
    }


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _console() -> Console:
    """Plain and wide when its output goes to a file or a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_OF_FILES)


def _end_orderly_on_signals() -> None:
    """SIGTERM and SIGHUP unwind like Ctrl-C does, so that every process is ended."""

    def leave(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
