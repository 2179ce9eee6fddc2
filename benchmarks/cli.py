"""The command line."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import click
from rich.console import Console

from tests.peers import NEWEST_KAFKA, PeerUnavailableError, find_kafka

from .brokers import KafkaKind, TidelogKind
from .effort import SMOKE, WHOLE, Effort
from .machine import machine_facts
from .peer import NoSuchPeerError, baseline, find_peer, parse_settings
from .plan import Plan
from .progress import Progress
from .ratios import LEAST_PAIRS
from .report import document, print_report
from .run import Run
from .scenarios import DEFAULT_MATRIX, FULL_MATRIX, SMOKE_MATRIX, Bench
from .workspace import default_base, disk_base, workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .brokers import BrokerKind
    from .results import Results

# One run's data, the one before it that is about to be deleted, and both brokers' metadata.
_DATA_SETS_HELD = 4
_WIDTH_OF_FILES = 200
_MOST_SLICES = 200
_RESULTS = Path(__file__).parent / "results"

_EXAMPLES = """\b
Examples:
  python -m benchmarks                              about half an hour, beside Apache Kafka
  python -m benchmarks --smoke                      a minute, tidelog alone: does each kind of row run?
  python -m benchmarks --only ready --only memory   some rows
  python -m benchmarks --only 'produce-1KB-16KB-*' --slices 30    narrower intervals
  python -m benchmarks --full --json figures.json   every shape of load
  python -m benchmarks --peer 3.9.1                 beside another release of Apache Kafka
  python -m benchmarks --peer pure                  what compiled modules bring
  python -m benchmarks --peer ../before             what a change does
  python -m benchmarks --against-set socket.busy.poll.us=0        what a setting does
  python -m benchmarks --no-tidelog                 Apache Kafka alone
  python -m benchmarks --list                       the names of all rows
"""


@attrs.frozen(kw_only=True)
class Options:
    """What the command line asks for."""

    smoke: bool
    full: bool
    only: tuple[str, ...]
    slices: int | None
    seconds: float | None
    repeat: int | None
    peer: str | None
    no_kafka: bool
    no_tidelog: bool
    against_set: tuple[str, ...]
    against_checkout: Path | None
    against_pure: bool
    data_dir: Path | None
    json_path: Path | None
    details: bool
    list_rows: bool

    @property
    def effort(self) -> Effort:
        """How much to measure."""
        effort = SMOKE if self.smoke else WHOLE
        return attrs.evolve(
            effort,
            slices=self.slices or effort.slices,
            launch_slices=self.slices or effort.launch_slices,
            slice_s=self.seconds or effort.slice_s,
            repeats=self.repeat or effort.repeats,
        )

    @property
    def plan(self) -> Plan:
        """Which rows. Raises click.UsageError when that is none."""
        if self.smoke and self.full:
            raise click.UsageError("--smoke and --full exclude each other")
        matrix = SMOKE_MATRIX if self.smoke else FULL_MATRIX if self.full else DEFAULT_MATRIX
        plan = Plan.of(matrix, self.effort)
        if not self.only:
            return plan.one_of_each_kind() if self.smoke else plan
        try:
            return plan.only(self.only)
        except ValueError as error:
            hint = "" if self.full else " (--full knows more of them)"
            raise click.UsageError(f"{error}; `--list` shows their names{hint}") from error

    def kinds(self, console: Console) -> list[BrokerKind]:
        """The brokers. Raises click.UsageError when there is none, or no such peer."""
        peer = self._named_peer()
        if peer is not None:
            if self.no_kafka or self.no_tidelog or self.smoke:
                raise click.UsageError("--peer and --against-* go with no --smoke and no --no-*")
            return [TidelogKind(), peer]
        kinds: list[BrokerKind] = [] if self.no_tidelog else [TidelogKind()]
        if not self.no_kafka and not self.smoke:
            kinds += _default_peer(console)
        if not kinds:
            raise click.UsageError("that leaves no broker to measure")
        return kinds

    def _named_peer(self) -> BrokerKind | None:
        against = bool(self.against_set or self.against_checkout or self.against_pure)
        if self.peer is not None and against:
            raise click.UsageError("--peer and --against-* exclude each other")
        try:
            if self.peer is not None:
                return find_peer(self.peer)
            if against:
                settings = parse_settings(self.against_set)
                return baseline(settings, self.against_checkout, pure=self.against_pure)
        except NoSuchPeerError as error:
            raise click.UsageError(str(error)) from error
        return None


@click.command(epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@click.option("--smoke", is_flag=True, help="Tiny sizes, a row of each kind, no Kafka: a minute in all.")
@click.option("--full", is_flag=True, help="Every shape of throughput load, not the default ten.")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Rows by name, part of it or pattern; repeatable."
)
@click.option(
    "--slices",
    type=click.IntRange(min=1, max=_MOST_SLICES),
    help=f"Slices of each row that is compared, on each broker; with less than {LEAST_PAIRS} a ratio has"
    " no interval.  [default: 12, or 6 where each starts a broker or fills a log]",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0.01), help="Of a throughput measurement.  [default: 0.5]"
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    help="Repeats of each row that is measured on tidelog or the machine alone.  [default: 3]",
)
@click.option(
    "--peer",
    metavar="PEER",
    help="Compare with this: a version of Apache Kafka, `pure` for tidelog without compiled modules, or the"
    f" folder of another checkout, in whose .venv `make test` has installed it.  [default: {NEWEST_KAFKA}]",
)
@click.option("--no-kafka", is_flag=True, help="Measure tidelog alone.")
@click.option("--no-tidelog", is_flag=True, help="Measure Apache Kafka alone.")
@click.option(
    "--against-set",
    multiple=True,
    metavar="KEY=VALUE",
    help="Compare with tidelog under this setting, not with Apache Kafka; repeatable, and together with the"
    " other --against-*.",
)
@click.option(
    "--against-checkout",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Compare with the tidelog of another checkout, as --peer FOLDER does.",
)
@click.option("--against-pure", is_flag=True, help="Compare as --peer pure does.")
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
def main(**given: Any) -> None:
    """Measure tidelog beside Apache Kafka: same machine, same client, in short slices in alternation.

    Apache Kafka is fetched by Maven at the first use; without Java, Maven or a network tidelog is measured
    alone. docs/benchmarks.md describes each row. The exit status is 0 when everything could be measured,
    whatever the figures.
    """
    options = Options(**given)
    if options.list_rows:
        click.echo("\n".join(row.name for row in options.plan.rows))
        return
    sys.exit(1 if _measure(options).failures else 0)


def _measure(options: Options) -> Results:
    console, effort, plan = _console(), options.effort, options.plan
    # A broker that is installed has its bytecode; without it every start would compile everything again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _end_orderly_on_signals()
    kinds = options.kinds(console)
    started = datetime.now(UTC)
    with ExitStack() as folders:
        base = options.data_dir or default_base(_DATA_SETS_HELD * effort.most_bytes)
        folder, disk = folders.enter_context(workspace(base)), disk_base(options.data_dir)
        bench = Bench(effort, folder, disk and folders.enter_context(workspace(disk)))
        about = _about(started, bench, kinds)
        results = Run(bench, plan, kinds, Progress()).execute()
    about["seconds"] = round((datetime.now(UTC) - started).total_seconds(), 1)
    print_report(console, results, {kind.key: kind.title for kind in kinds}, details=options.details)
    path = options.json_path or (None if options.smoke else _RESULTS / f"{started:%Y%m%dT%H%M%SZ}.json")
    if path is not None:
        _write_json(path, document(results, about))
        console.print(f"Written to {path}", markup=False)
    return results


def _default_peer(console: Console) -> list[BrokerKind]:
    try:
        return [KafkaKind(find_kafka())]
    except PeerUnavailableError as error:
        console.print(f"{error}. Measuring without it.", style="yellow", markup=False)
        return []


def _about(started: datetime, bench: Bench, kinds: Sequence[BrokerKind]) -> dict[str, object]:
    return {
        "started": started.isoformat(timespec="seconds"),
        "effort": attrs.asdict(bench.effort),
        "machine": machine_facts(bench.folder, bench.disk),
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
