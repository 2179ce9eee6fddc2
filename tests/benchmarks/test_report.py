from __future__ import annotations

import io
import json

import attrs
from rich.console import Console

from benchmarks.brokers import TIDELOG
from benchmarks.report import document, print_report
from benchmarks.report.figures import figure, multiple, share, spread
from benchmarks.results import Results
from benchmarks.rows import Better, Row, Sample, ratio_at_most
from benchmarks.summaries import Summary
from tests.benchmarks.some_results import PRODUCE, some_results
from tests.tables import for_each

TITLES = {"tidelog": "tidelog 1.0", "kafka": "Apache Kafka 9.9"}


def printed(results: Results, *, details: bool = False) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_report(console, results, TITLES, details=details)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@for_each(
    ("value", "text"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (1, "1.00"),
        (12.345, "12.3"),
        (99.96, "100"),
        (1234.5, "1,230"),
        (1_249_000, "1,250,000"),
        (-0.5, "-0.500"),
        (float("inf"), "inf"),
    ],
)
def test_figures_show_three_digits_that_count(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_spread_shows_where_repeats_differ() -> None:
    assert spread(Summary(2, 1, 3)) == "2.00 (1.00–3.00)"
    assert spread(Summary(2, 2, 2)) == "2.00"
    assert spread(None) == "–"


def test_what_is_missing_shows_as_a_dash() -> None:
    assert (multiple(None), share(None)) == ("–", "–")
    assert (multiple(1.234), share(0.256)) == ("1.23×", "26%")


def test_the_table_shows_ratio_target_verdict_and_share() -> None:
    lines = printed(some_results()).splitlines()
    produce = next(line for line in lines if "produce it" in line)
    assert [cell.strip() for cell in produce.strip("│").split("│")] == [
        "produce it",
        "MB/s",
        "300 (290–310)",
        "100 (90.0–110)",
        "3.00×",
        "≥ 1.5×",
        "met",
        "30% / 10%",
    ]
    assert any("be ready" in line and "missed" in line for line in lines)
    assert any("bare loop" in line and "1,000" in line for line in lines)
    assert not any("never measured" in line for line in lines)
    assert "1 of 2 targets met" in lines


def test_packages_have_a_table_of_their_own() -> None:
    codec = Row("codec", "decode it", "µs", Better.LOWER, (ratio_at_most(0.5),), packages=("slow", "quick"))
    results = Results([codec])
    for subject, value in ((TIDELOG, 2.0), ("slow", 8.0), ("quick", 5.0)):
        results.add(subject, [Sample("codec", value)])
    lines = printed(results).splitlines()
    assert [cell.strip() for line in lines if "decode it" in line for cell in line.strip("│").split("│")] == [
        "decode it",
        "µs",
        "2.00",
        "8.00",
        "5.00",
        "0.40×",
        "≤ 0.5×",
        "met",
    ]
    assert not any("of the limit" in line for line in lines)


def test_details_show_who_was_busy() -> None:
    assert "1.00 + 0.500 (+ 0.200)" in printed(some_results(), details=True)
    assert "Cores busy" not in printed(some_results())


def test_failures_are_printed_as_they_are() -> None:
    results = some_results()
    results.failures.append("produce [/oops]: it broke")
    assert "failed: produce [/oops]: it broke" in printed(results)


def test_a_busy_machine_is_told() -> None:
    results = Results([PRODUCE])
    results.add(TIDELOG, [Sample("produce", 1.0, {"other_share": 0.4})])
    told = printed(results)
    assert "produce it ~" in told
    assert "other processes took more than 10% of this machine" in told
    assert "~" not in printed(some_results())


def test_batches_that_were_not_full_are_told() -> None:
    results = Results([PRODUCE])
    results.add(TIDELOG, [Sample("produce", 1.0, {"batch_fill": 0.5})])
    assert "produce it: the batches were only 50% full" in printed(results)


def test_the_document_is_json_with_all_samples() -> None:
    results = some_results()
    results.failures.append("something broke")
    told = json.loads(json.dumps(document(results, {"started": "now"})))
    assert told["format"] == 1
    assert told["started"] == "now"
    assert told["failures"] == ["something broke"]
    assert [row["name"] for row in told["rows"]] == ["limit", "produce", "ready"]
    produce = told["rows"][1]
    assert produce["ratio"] == 3.0
    assert produce["better"] == "higher"
    assert produce["targets"] == [{"kind": "ratio at least", "bound": 1.5, "met": True}]
    assert set(produce["subjects"]) == {"tidelog", "kafka"}
    ours = produce["subjects"]["tidelog"]
    assert {name: ours[name] for name in attrs.fields_dict(Summary)} == {
        "median": 300.0,
        "least": 290.0,
        "most": 310.0,
    }
    assert ours["share_of_limit"] == 0.3
    assert [sample["value"] for sample in ours["samples"]] == [290.0, 310.0, 300.0]
    assert ours["samples"][0]["client_cores"] == 1.0
