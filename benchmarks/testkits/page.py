"""The page with the table of a run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .run import Done, Lacking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run import KitResult

PAGE: Final = Path(__file__).parents[2] / "docs" / "testing-compared.md"
_HERE: Final = Path(__file__).parent
_HEAD = """# Servers for tests compared

The same twenty tests of an application, written with confluent-kafka, against four servers: tidelog
in the test's own process, Apache Kafka 4.4.0 as a process, which is what a container runs, the mock
that librdkafka has (`test.mock.num.brokers`), and kfake, which franz-go has for tests in Go.
`python -m benchmarks.testkits` in a checkout runs them and writes this page; the tests are in
`benchmarks/testkits/scenarios.py`, and what each server needs for them beside it.

"""
_SECONDS = """## Seconds

With tidelog, the mock and kfake each test has a server of its own, whose start is in its time.
Apache Kafka takes too long to start for that: all tests share one server, whose start is the first
row. Two cores that other work used, too: what differs by tenths of a second says nothing.

"""
_LACKING = """
## What cannot be done

"""
_LINES = """
## Lines

The lines that the twenty tests need for a server and for what they do to it: start and stop,
errors, delays, time, crashes. Comments, empty lines and what is the same for all are not counted,
nor what starts Apache Kafka, for which there are containers. Those of kfake have a program in Go,
since it is a library for Go.

"""


def page(results: Sequence[KitResult]) -> str:
    """Return the page; all results are of the same tests."""
    return (
        _HEAD
        + _SECONDS
        + _table_of_seconds(results)
        + _LACKING
        + _lacking(results)
        + _LINES
        + _lines(results)
    )


def _table_of_seconds(results: Sequence[KitResult]) -> str:
    rows = [["test", *(each.kit.title for each in results)], ["---", *["---:"] * len(results)]]
    rows.append(["start", *(_seconds(each.start_s) for each in results)])
    for number, (name, _) in enumerate(results[0].outcomes):
        rows.append([_words(name), *(_cell(each.outcomes[number][1]) for each in results)])
    rows.append(["done", *(f"{each.done} of {len(each.outcomes)}" for each in results)])
    rows.append(["all that were done", *(_seconds(each.total_s) for each in results)])
    rows.append(["the same ones", *(_seconds(each) for each in _of_common(results))])
    return _markdown(rows)


def _of_common(results: Sequence[KitResult]) -> list[float]:
    """Return the seconds of what all servers could do."""
    by_test = zip(*(each.outcomes for each in results), strict=True)
    common = [each for each in by_test if all(isinstance(outcome, Done) for _, outcome in each)]
    return [sum(each[number][1].seconds for each in common) for number in range(len(results))]


def _lacking(results: Sequence[KitResult]) -> str:
    lines: list[str] = []
    for each in results:
        reasons: dict[str, list[str]] = {}
        for name, outcome in each.outcomes:
            if isinstance(outcome, Lacking):
                reasons.setdefault(outcome.reason, []).append(_words(name))
        lines += [f"| {each.kit.title} | {'; '.join(names)} | {why} |" for why, names in reasons.items()]
    return "\n".join(["| server | test | why |", "|---|---|---|", *lines]) + "\n"


def _lines(results: Sequence[KitResult]) -> str:
    rows = [["server", "lines of Python", "lines of Go"], ["---", "---:", "---:"]]
    for each in results:
        name = each.kit.__module__.rpartition(".")[2]
        program = _HERE / name.removesuffix("_kit") / "main.go"
        of_go = str(lines_of_go(program.read_text())) if program.exists() else ""
        rows.append([each.kit.title, str(lines_of_python((_HERE / f"{name}.py").read_text())), of_go])
    return _markdown(rows)


def lines_of_python(source: str) -> int:
    """Return how many lines have code, without comments and docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in docstrings and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(source.splitlines(), 1)
    )


def lines_of_go(source: str) -> int:
    """Return how many lines have code, without comments."""
    return sum(bool(line.strip()) and not line.strip().startswith("//") for line in source.splitlines())


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _cell(outcome: Done | Lacking) -> str:
    return _seconds(outcome.seconds) if isinstance(outcome, Done) else "—"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f}"


def _words(name: str) -> str:
    return name.replace("_", " ")
