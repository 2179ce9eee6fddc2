"""The run as tables: one line per row, tidelog beside Apache Kafka beside the target."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.brokers import TIDELOG
from benchmarks.results import MACHINE

from .figures import MISSING, figure, multiple, share, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from benchmarks.results import Results
    from benchmarks.rows import Row, Sample

# Above this, whatever else ran on the machine had a say in the figures.
NOISY_SHARE = 0.1
# Below this, a batch is not what its row calls it.
LEAST_FILL = 0.85
_NOISY_MARK = "~"
_VERDICTS = {True: "[green]met[/]", False: "[red]missed[/]", None: MISSING}


def print_report(
    console: Console, results: Results, titles: dict[str, str], *, details: bool = False
) -> None:
    """Print what was measured of the brokers in `titles`, by their keys.

    `details` adds who was busy during each load.
    """
    measured = [row for row in results.rows if results.subjects(row.name)]
    beside = [row for row in measured if row.packages]
    if not beside or len(beside) < len(measured):
        if any(results.summary(row.name, MACHINE) for row in measured):
            console.print(_limits(results, measured))
        console.print(_figures(results, [row for row in measured if not row.packages], titles))
    if beside:
        console.print(_beside_packages(results, beside))
    if details:
        console.print(_busy(results, measured, titles))
    for line in (*_summary(results, measured), *_warnings(results, measured), *_unfilled(results, measured)):
        console.print(line)
    for failure in results.failures:
        console.print("failed:", style="red", end=" ")
        console.print(failure, markup=False)


def _limits(results: Results, measured: Sequence[Row]) -> Table:
    table = Table(title="What this machine reaches without a broker, MB/s", title_justify="left")
    table.add_column("")
    table.add_column("median (least–most)", justify="right")
    for row in measured:
        summary = results.summary(row.name, MACHINE)
        if summary is not None:
            table.add_row(row.title, spread(summary))
    return table


def _figures(results: Results, measured: Sequence[Row], titles: dict[str, str]) -> Table:
    table = Table(title="Median of the repeats (least–most)", title_justify="left")
    table.add_column("", min_width=44)
    table.add_column("unit")
    for title in titles.values():
        table.add_column(title, justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
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
    return [
        multiple(results.ratio(row.name)),
        "\n".join(map(str, row.targets)),
        "\n".join(_VERDICTS[met] for met in results.verdicts(row)),
    ]


def _cells(results: Results, row: Row, brokers: Sequence[str]) -> list[str]:
    shares = [results.share_of_limit(row, key) for key in brokers]
    noisy = any(_is_noisy(results.samples(row.name, key)) for key in brokers)
    return [
        f"{row.title} {_NOISY_MARK}" if noisy else row.title,
        row.unit,
        *(spread(results.summary(row.name, key)) for key in brokers),
        *_judged(results, row),
        " / ".join(map(share, shares)) if row.limit else "",
    ]


def _busy(results: Results, measured: Sequence[Row], titles: dict[str, str]) -> Table:
    table = Table(title="Cores busy with client + broker (+ anything else), medians", title_justify="left")
    table.add_column("", min_width=44)
    for title in titles.values():
        table.add_column(title, justify="right")
    for row in measured:
        cells = [_busy_cores(results.samples(row.name, key)) for key in titles]
        if any(cells):
            table.add_row(row.title, *cells)
    return table


def _busy_cores(samples: Sequence[Sample]) -> str:
    parts = [_median(samples, key) for key in ("client_cores", "broker_cores", "other_cores")]
    if None in parts:
        return ""
    client, broker, other = (figure(round(part or 0.0, 2)) for part in parts)
    return f"{client} + {broker} (+ {other})"


def _median(samples: Sequence[Sample], key: str) -> float | None:
    values = [each for sample in samples if isinstance(each := sample.details.get(key), float)]
    return statistics.median(values) if values else None


def _summary(results: Results, measured: Sequence[Row]) -> list[str]:
    verdicts = [met for row in measured for met in results.verdicts(row) if met is not None]
    return [f"{sum(verdicts)} of {len(verdicts)} targets met"] if verdicts else []


def _unfilled(results: Results, measured: Sequence[Row]) -> list[str]:
    """Rows whose batches were smaller than their name says."""
    fills = [
        (row.title, _median(results.samples(row.name, subject), "batch_fill"))
        for row in measured
        for subject in results.subjects(row.name)
    ]
    return [
        f"[yellow]{title}: the batches were only {fill:.0%} full[/]"
        for title, fill in fills
        if fill is not None and fill < LEAST_FILL
    ]


def _is_noisy(samples: Sequence[Sample]) -> bool:
    other = _median(samples, "other_share")
    return other is not None and other > NOISY_SHARE


def _warnings(results: Results, measured: Sequence[Row]) -> list[str]:
    noisy = sum(
        any(_is_noisy(results.samples(row.name, subject)) for subject in results.subjects(row.name))
        for row in measured
    )
    if not noisy:
        return []
    return [
        f"[yellow]{_NOISY_MARK} marks what was measured while other processes took more than"
        f" {NOISY_SHARE:.0%} of this machine: take it with care.[/]"
    ]
