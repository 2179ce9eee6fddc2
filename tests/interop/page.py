"""docs/interop.md, written from the results."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .results import FAILS, LACKS, PASSES, Cell, Results
from .scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .client import Client

PAGE: Final = Path(__file__).parents[2] / "docs" / "interop.md"
RESULTS: Final = PAGE.with_suffix(".json")
_SIGNS: Final = {PASSES: "✓", FAILS: "✗", LACKS: "–"}
_HEAD: Final = """# Clients

Written by `make interop`: real clients, unchanged, run the scenarios of `tests/interop/scenarios.py` against
tidelog. {cells}

| sign | meaning |
|---|---|
| ✓ | the client did it, and another client found the right outcome |
| ✗ | it did not go as expected; the reason is [below](#what-failed) |
| – | the client does not have it; the reason is [below](#what-clients-do-not-have) |
| | not run |

The column "Kafka" compares with the same run against Apache Kafka, of the newest release that speaks the
client's protocol versions: "same" if every cell is the same, else the cells that differ, empty if it was not
run.

    make interop CLIENTS="kcat,kafka-clients 0."
    make interop SERVER=kafka CLIENTS="kcat"

`CLIENTS` has beginnings of names, all clients without it. A run replaces the cells of its clients in
`docs/interop.json` and writes this page from that file. Clients are fetched from their registries when they
are first needed; the cells of one that cannot be had are "–".
"""


def render(results: Results, clients: Sequence[Client]) -> str:
    """Return the whole page."""
    known = [each for each in clients if each.name in results.servers["tidelog"]]
    common = [each for each in known if each.scenarios is None]
    parts = [_HEAD.format(cells=_counts(results, known))]
    for section in dict.fromkeys(each.section for each in SCENARIOS):
        parts.append(_section_table(section, results, common))
    parts.extend(_list_table(client, results) for client in known if client.scenarios is not None)
    parts.append("## What failed\n\n" + _reasons(results, known, FAILS))
    parts.append("## What clients do not have\n\n" + _reasons(results, known, LACKS))
    return "\n".join(parts)


def _counts(results: Results, clients: Sequence[Client]) -> str:
    cells = [cell for each in clients for cell in results.servers["tidelog"][each.name].values()]
    passed, failed, lacking = (sum(cell.outcome == kind for cell in cells) for kind in (PASSES, FAILS, LACKS))
    counted = f"{len(clients)} clients, {len(cells)} cells: {passed} pass, {failed} fail, "
    return f"{counted}{lacking} are something that\nthe client does not have."


def _section_table(section: str, results: Results, clients: Sequence[Client]) -> str:
    names = [each.name for each in SCENARIOS if each.section == section]
    lines = [
        f"## {section}\n",
        f"| client | {' | '.join(names)} | Kafka |",
        "|---" + "|:-:" * len(names) + "|---|",
    ]
    for client in clients:
        cells = {
            server: {name: found.get(client.name, {}).get(f"{section}: {name}") for name in names}
            for server, found in results.servers.items()
        }
        signs = [_SIGNS[cell.outcome] if cell else "" for cell in cells["tidelog"].values()]
        compared = _comparison(cells["tidelog"], cells["kafka"], client.kafka)
        lines.append(f"| {client.name} | {' | '.join(signs)} | {compared} |")
    return "\n".join(lines) + "\n"


def _comparison(ours: Mapping[str, Cell | None], theirs: Mapping[str, Cell | None], kafka: str) -> str:
    """Return what the column about Apache Kafka says."""
    run = {name: cell for name, cell in theirs.items() if cell is not None}
    if not run:
        return ""
    different = [name for name, cell in run.items() if _differs(ours[name], cell)]
    if different:
        return f"{kafka}: differs in {', '.join(different)}"
    return f"{kafka}: same" + ("" if len(run) == len(ours) else f" in {len(run)} of {len(ours)}")


def _differs(ours: Cell | None, theirs: Cell) -> bool:
    return ours is None or ours.outcome != theirs.outcome


def _list_table(client: Client, results: Results) -> str:
    """Return the table of a client with scenarios of its own: one row for each."""
    lines = [f"## {client.name}\n", "| scenario | tidelog | Kafka |", "|---|:-:|---|"]
    found = {server: clients.get(client.name, {}) for server, clients in results.servers.items()}
    for each in client.scenarios or ():
        name = f"{each.section}: {each.name}"
        cell, theirs = found["tidelog"].get(name), found["kafka"].get(name)
        sign = _SIGNS[cell.outcome] if cell else ""
        compared = _comparison({name: cell}, {name: theirs}, client.kafka)
        lines.append(f"| {name} | {sign} | {'' if theirs is None else compared} |")
    return "\n".join(lines) + "\n"


def _reasons(results: Results, clients: Sequence[Client], outcome: str) -> str:
    """Return a list of reasons, each with its clients and scenarios."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for client, name, cell in _cells(results, clients):
        if cell.outcome == outcome:
            found[cell.reason][name].append(client)
    if not found:
        return "Nothing.\n"
    lines = ["| reason | scenarios | clients |", "|---|---|---|"]
    for reason, scenarios in found.items():
        grouped: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, some in scenarios.items():
            grouped[tuple(some)].append(name)
        for who, names in grouped.items():
            lines.append(f"| {_escaped(reason)} | {', '.join(names)} | {', '.join(who)} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _cells(results: Results, clients: Sequence[Client]) -> Iterator[tuple[str, str, Cell]]:
    for client in clients:
        for name, cell in results.servers["tidelog"][client.name].items():
            yield client.name, name, cell
