"""The run as tables: one line per row, tidelog beside Apache Kafka beside the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.brokers import TIDELOG
from benchmarks.ratios import LEAST_PAIRS
from benchmarks.results import MACHINE
from benchmarks.rows import Verdict

from .figures import MISSING, figure, multiple, share, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from benchmarks.results import Results
    from benchmarks.rows import Row

# Below this, a batch is not what its row calls it.
LEAST_FILL = 0.85
# Above this, the broker that waits takes more than either of them does without a client.
MOST_IDLE_CORES = 0.1
_VERDICTS = {
    Verdict.MET: "[green]met[/]",
    Verdict.MISSED: "[red]missed[/]",
    Verdict.UNDECIDED: "[yellow]undecided[/]",
    None: MISSING,
}
_FAILED = "[red]failed[/]"


def print_report(
    console: Console, results: Results, titles: dict[str, str], *, details: bool = False
) -> None:
    """Print what was measured of the brokers in `titles`, by their keys.

    `details` adds who was busy during each load.
    """
    measured = results.measured
    beside = [row for row in measured if row.packages]
    if not beside or len(beside) < len(measured):
        if any(results.summary(row.name, MACHINE) for row in measured):
            console.print(_limits(results, measured))
        console.print(_figures(results, [row for row in measured if not row.packages], titles))
    if beside:
        console.print(_beside_packages(results, beside))
    if details:
        console.print(_busy(results, measured, titles))
    for line in (*_summary(results, measured), *_warnings(results, measured)):
        console.print(line)
    for failure in results.failures:
        console.print("failed:", style="red", end=" ")
        console.print(failure, markup=False)


def _limits(results: Results, measured: Sequence[Row]) -> Table:
    table = Table(title="What this machine reaches without a broker", title_justify="left")
    table.add_column("")
    table.add_column("unit")
    table.add_column("median (least–most)", justify="right")
    for row in measured:
        summary = results.summary(row.name, MACHINE)
        if summary is not None:
            table.add_row(row.title, row.unit, spread(summary))
    return table


def _figures(results: Results, measured: Sequence[Row], titles: dict[str, str]) -> Table:
    table = Table(title="Median of the slices (least–most)", title_justify="left")
    table.add_column("", min_width=44)
    table.add_column("unit")
    for title in titles.values():
        table.add_column(title, justify="right")
    table.add_column("ratio (95 % interval)", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    table.add_column("taken by others", justify="right")
    table.add_column("of the limit", justify="right")
    for row in measured:
        if results.summary(row.name, MACHINE) is None:
            table.add_row(*_cells(results, row, list(titles)))
    return table


def _beside_packages(results: Results, measured: Sequence[Row]) -> Table:
    packages = list(dict.fromkeys(package for row in measured for package in row.packages))
    table = Table(title="Beside other packages, on the same bytes", title_justify="left")
    table.add_column("", min_width=44)
    table.add_column("unit")
    for package in (TIDELOG, *packages):
        table.add_column(package, justify="right")
    table.add_column("ratio to the best", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    for row in measured:
        medians = [spread(results.summary(row.name, package)) for package in (TIDELOG, *packages)]
        table.add_row(row.title, row.unit, *medians, *_judged(results, row))
    return table


def _judged(results: Results, row: Row) -> list[str]:
    """Return the cells of the ratio, the targets and the verdicts."""
    verdicts = [_VERDICTS[verdict] for verdict in results.verdicts(row)]
    return [
        multiple(results.ratio(row.name)),
        "\n".join(map(str, row.targets)),
        _FAILED if results.errors(row.name) else "\n".join(verdicts),
    ]


def _cells(results: Results, row: Row, brokers: Sequence[str]) -> list[str]:
    taken = [results.other_share(row.name, key) for key in results.subjects(row.name)]
    shares = [results.share_of_limit(row, key) for key in brokers]
    return [
        row.title,
        row.unit,
        *(spread(results.summary(row.name, key)) for key in brokers),
        *_judged(results, row),
        " / ".join(map(share, taken)),
        " / ".join(map(share, shares)) if row.limit else "",
    ]


def _busy(results: Results, measured: Sequence[Row], titles: dict[str, str]) -> Table:
    table = Table(title="Cores busy with client + broker (+ anything else), medians", title_justify="left")
    table.add_column("", min_width=44)
    for title in titles.values():
        table.add_column(title, justify="right")
    for row in measured:
        cells = [_busy_cores(results, row, key) for key in titles]
        if any(cells):
            table.add_row(row.title, *cells)
    return table


def _busy_cores(results: Results, row: Row, subject: str) -> str:
    cores = ("client_cores", "broker_cores", "other_cores")
    parts = [results.median_detail(row.name, subject, each) for each in cores]
    if None in parts:
        return ""
    client, broker, other = (figure(round(part or 0.0, 2)) for part in parts)
    return f"{client} + {broker} (+ {other})"


def _summary(results: Results, measured: Sequence[Row]) -> list[str]:
    verdicts = [verdict for row in measured for verdict in results.verdicts(row) if verdict is not None]
    if not verdicts:
        return []
    met, missed, undecided = map(verdicts.count, Verdict)
    return [f"{met} of {len(verdicts)} targets met, {missed} missed, {undecided} undecided"]


def _warnings(results: Results, measured: Sequence[Row]) -> list[str]:
    """What makes figures mean less than their row's name says."""
    found: list[str] = []
    for row in measured:
        for subject in results.subjects(row.name):
            found += _warnings_of(results, row, subject)
    if any((ratio := results.ratio(row.name)) and ratio.interval is None for row in measured):
        found.append(f"A ratio of fewer than {LEAST_PAIRS} slices on each side has no interval")
    return [f"[yellow]{warning}[/]" for warning in found]


def _warnings_of(results: Results, row: Row, subject: str) -> Iterator[str]:
    slices = len(results.samples(row.name, subject))
    if subject in results.errors(row.name):
        yield f"{row.title}, {subject}: failed after {slices} slices; the figure is of these"
    fill = results.median_detail(row.name, subject, "batch_fill")
    if fill is not None and fill < LEAST_FILL:
        yield f"{row.title}, {subject}: the batches were only {fill:.0%} full"
    idle = results.median_detail(row.name, subject, "idle_cores")
    if idle is not None and idle > MOST_IDLE_CORES and results.ratio(row.name):
        yield f"{row.title}, {subject}: the other broker and the harness took {idle:.2f} of a core meanwhile"
