from __future__ import annotations

import io
import json

import attrs
from rich.console import Console

from benchmarks.brokers import KAFKA, TIDELOG
from benchmarks.ratios import Interval, Ratio
from benchmarks.report import document, print_report
from benchmarks.report.figures import figure, multiple, share, spread
from benchmarks.results import Results
from benchmarks.rows import Better, Row, Sample, ratio_at_most
from benchmarks.summaries import Summary
from tests.benchmarks.some_results import NEVER_MEASURED, PRODUCE, some_results
from tests.tables import for_each

TITLES = {"tidelog": "tidelog 1.0", "kafka": "Apache Kafka 9.9"}


def printed(results: Results, *, details: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200)
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
    assert (multiple(Ratio(1.234, 5)), share(0.256)) == ("1.23×", "26%")
    assert multiple(Ratio(1.234, 9, Interval(1.1, 1.456))) == "1.23× (1.10–1.46)"


def test_the_table_shows_ratio_target_verdict_and_share() -> None:
    lines = printed(some_results()).splitlines()
    produce = next(line for line in lines if "produce it" in line)
    assert [cell.strip() for cell in produce.strip("│").split("│")] == [
        "produce it",
        "MB/s",
        "300 (280–310)",
        "100 (93.3–103)",
        "3.00× (3.00–3.00)",
        "≥ 1.5×",
        "met",
        "10% / 25%",
        "30% / 10%",
    ]
    assert any("be ready" in line and "missed" in line for line in lines)
    assert any("bare loop" in line and "1,000" in line for line in lines)
    assert not any("never measured" in line for line in lines)
    assert "1 of 2 targets met, 1 missed, 0 undecided" in lines


def test_packages_have_a_table_of_their_own() -> None:
    codec = Row("codec", "decode it", "µs", Better.LOWER, (ratio_at_most(0.5),), packages=("slow", "quick"))
    results = Results([codec])
    for subject, value in ((TIDELOG, 2.0), ("slow", 8.0), ("quick", 5.0)):
        results.add(subject, [Sample("codec", value)] * 6)
    lines = printed(results).splitlines()
    assert [cell.strip() for line in lines if "decode it" in line for cell in line.strip("│").split("│")] == [
        "decode it",
        "µs",
        "2.00",
        "8.00",
        "5.00",
        "0.40× (0.40–0.40)",
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


def test_an_interval_that_contains_the_target_decides_nothing() -> None:
    results = Results([PRODUCE])
    for ours in (100.0, 200.0, 100.0, 200.0, 150.0, 160.0):
        results.add(TIDELOG, [Sample("produce", ours)])
        results.add(KAFKA, [Sample("produce", 100.0)])
    output = printed(results)
    assert "(1.00–2.00)" in output
    assert "undecided" in output
    assert "0 of 1 targets met, 0 missed, 1 undecided" in output


def test_few_slices_have_no_interval_and_say_so() -> None:
    results = Results([PRODUCE])
    for subject, value in ((TIDELOG, 200.0), (KAFKA, 100.0)):
        results.add(subject, [Sample("produce", value)] * 5)
    output = printed(results)
    assert "2.00× │" in output
    assert "undecided" in output
    assert "fewer than 6 slices on each side has no interval" in output
    assert "has no interval" not in printed(some_results())


def test_a_failed_slice_is_reported_with_its_row() -> None:
    results = some_results()
    results.fail(KAFKA, [PRODUCE], "produce, Apache Kafka", "it broke")
    results.fail(TIDELOG, [NEVER_MEASURED], "never", "it broke at once")
    lines = printed(results).splitlines()
    assert any("produce it" in line and "failed" in line and "met" not in line for line in lines)
    assert "produce it, kafka: failed after 6 slices; the figure is of these" in lines
    assert any("never measured" in line and "failed" in line for line in lines)


@for_each(
    ("details", "warning"),
    [
        ({"batch_fill": 0.5}, "produce it, tidelog: the batches were only 50% full"),
        ({"batch_fill": 0.9}, None),
        ({"idle_cores": 0.3}, "the other broker and the harness took 0.30 of a core meanwhile"),
        ({"idle_cores": 0.05}, None),
    ],
)
def test_what_makes_a_figure_mean_less_is_reported(details: dict[str, object], warning: str | None) -> None:
    results = Results([PRODUCE])
    for subject in (TIDELOG, KAFKA):
        results.add(subject, [Sample("produce", 1.0, details)] * 6)
    output = printed(results)
    assert (warning in output) if warning else ("produce it, tidelog" not in output)


def test_the_document_is_json_with_all_samples() -> None:
    results = some_results()
    results.failures.append("something broke")
    told = json.loads(json.dumps(document(results, {"started": "now"})))
    assert told["format"] == 2
    assert told["started"] == "now"
    assert told["failures"] == ["something broke"]
    assert [row["name"] for row in told["rows"]] == ["limit", "produce", "ready"]
    produce = told["rows"][1]
    ratio = produce["ratio"]
    assert (round(ratio["value"], 9), ratio["pairs"], ratio["confidence"]) == (3.0, 6, 0.95)
    assert round(ratio["interval"]["low"], 9) == 3.0
    assert produce["better"] == "higher"
    assert produce["targets"] == [{"kind": "ratio at least", "bound": 1.5, "verdict": "met"}]
    assert produce["failed"] == {}
    assert told["rows"][2]["ratio"] is None
    assert set(produce["subjects"]) == {"tidelog", "kafka"}
    ours = produce["subjects"]["tidelog"]
    assert {name: ours[name] for name in attrs.fields_dict(Summary)} == {
        "median": 300.0,
        "least": 280.0,
        "most": 310.0,
    }
    assert ours["share_of_limit"] == 0.3
    assert ours["other_share"] == 0.1
    assert [sample["value"] for sample in ours["samples"]] == [280.0, 290.0, 310.0, 300.0, 300.0, 310.0]
    assert ours["samples"][0]["client_cores"] == 1.0
