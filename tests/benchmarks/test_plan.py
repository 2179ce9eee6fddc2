from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.effort import SMOKE, WHOLE
from benchmarks.plan import Plan
from benchmarks.rows import COMPILED
from benchmarks.scenarios import DEFAULT_MATRIX, FULL_MATRIX

WHOLE_PLAN = Plan.of(DEFAULT_MATRIX, WHOLE)


def names(plan: Plan) -> list[str]:
    return [row.name for row in plan.rows]


def test_every_row_is_named_once_and_limited_by_a_row() -> None:
    rows = Plan.of(FULL_MATRIX, WHOLE).rows
    assert [name for name, count in Counter(row.name for row in rows).items() if count > 1] == []
    assert {row.limit for row in rows if row.limit} <= {row.name for row in rows}


def test_the_full_matrix_has_every_shape_once() -> None:
    bare, compressed = 2 * 2 * 2, 4 * 3 * 2
    assert len(set(FULL_MATRIX)) == len(FULL_MATRIX) == bare + compressed
    assert set(DEFAULT_MATRIX) <= set(FULL_MATRIX)


def test_targets_depend_on_what_is_produced_and_on_what_runs() -> None:
    rows = Plan.of(FULL_MATRIX, WHOLE).rows
    targets = {row.name: [str(each) for each in row.targets] for row in rows}
    expected = {
        "produce-1KB-16KB-none-1p": ("≥ 2×", "≥ 1.5×"),
        "produce-1KB-16KB-none-16p": ("≥ 2×", "≥ 1.5×"),
        "produce-1KB-1MB-none-1p": ("≥ 1.3×", "≥ 1.1×"),
        "produce-100B-1MB-none-1p": ("≥ 1×", "≥ 1×"),
        "produce-1KB-100KB-gzip-1p": ("≥ 1.2×", "≥ 0.9×"),
        "cpu-in-1KB-100KB-snappy-1p": ("≤ 1×", "≤ 1.5×"),
        "cpu-out-1KB-1MB-none-1p": ("≤ 1×", "≤ 1.1×"),
        "consume-1KB-16KB-none-1p": ("≥ 1×", "≥ 1×"),
        "raw-fetch-1MB-16p": ("≥ 1.1×", "≥ 1×"),
        "acknowledge-at-rate-p99": ("≤ 0.5×", "≤ 0.6×"),
        "heartbeats-cpu": ("≤ 12", "≤ 20"),
        "heartbeats-consumer-cpu": ("≤ 12", "≤ 20"),
    }
    for name, (compiled, pure) in expected.items():
        assert targets[name] == [compiled if COMPILED else pure], name
    assert targets["ready"] == ["≤ 0.4", "≤ 0.2×"]


def test_a_smoke_run_has_a_scenario_of_each_kind() -> None:
    smoke = WHOLE_PLAN.one_of_each_kind()
    assert [each.name for each in smoke.on_disk] == [WHOLE_PLAN.on_disk[0].name]
    launched = [type(each) for each in WHOLE_PLAN.launches]
    assert [type(each) for each in smoke.launches] == [*dict.fromkeys(launched)]
    assert len(smoke.launches) < len(launched)
    rows = names(smoke)
    assert set(rows) < set(names(WHOLE_PLAN))
    assert {row.limit for row in smoke.rows if row.limit} <= set(rows)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["ready"], ["ready", "partitions-created", "partitions-ready"]),
        (["imports"], ["imports"]),
        (["memory-idle"], ["memory-idle", "memory-after-load"]),
        (["limit-sendfile"], ["limit-sendfile"]),
        (["acknowledge-one*"], [f"acknowledge-one-at-a-time-{p}" for p in ("p50", "p99", "p99.9")]),
    ],
)
def test_a_pattern_picks_by_part_or_by_wildcard(patterns: list[str], expected: list[str]) -> None:
    assert [name for name in names(WHOLE_PLAN.only(patterns)) if name in expected] == expected


def test_a_row_brings_the_limits_that_it_is_shown_against() -> None:
    assert names(WHOLE_PLAN.only(["produce-100B-16KB-none-1p"])) == [
        "limit-receive-16KB",
        "limit-sendfile",
        "limit-produce-100B-16KB-none-1p",
        "produce-100B-16KB-none-1p",
        "consume-100B-16KB-none-1p",
        "cpu-in-100B-16KB-none-1p",
        "cpu-out-100B-16KB-none-1p",
        "cpu-in-and-out-100B-16KB-none-1p",
    ]


def test_a_row_about_storage_brings_its_limit_too() -> None:
    assert names(WHOLE_PLAN.only(["append-partition-1MB"])) == ["limit-receive-1MB", "append-partition-1MB"]


def test_a_scenario_can_be_picked_by_its_own_name() -> None:
    assert names(WHOLE_PLAN.only(["comfort"])) == [
        "partitions-created",
        "partitions-ready",
        "partitions-memory",
        "partitions-files",
        "connections-opened",
        "connections-memory",
        "connections-files",
    ]


def test_rows_with_spark_need_more_than_a_smoke_run() -> None:
    """They would take minutes, and jars."""
    assert {"spark-noop-lz4-times", "spark-latency-tuned-p50", "spark-beside"} <= set(names(WHOLE_PLAN))
    assert not [name for name in names(Plan.of(DEFAULT_MATRIX, SMOKE)) if name.startswith("spark")]


def test_a_pattern_that_fits_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing is called 'prodcue'"):
        WHOLE_PLAN.only(["ready", "prodcue"])
