"""The whole run as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.ratios import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.results import Results
    from benchmarks.rows import Row

# Raised when a reader of older files would misread newer ones.
FORMAT = 2


def document(results: Results, about: Mapping[str, object]) -> dict[str, Any]:
    """`about` the run (machine, brokers, options), then one entry per measured row, then what failed."""
    measured = results.measured
    return {
        "format": FORMAT,
        **about,
        "rows": [_row(results, row) for row in measured],
        "failures": list(results.failures),
    }


def _row(results: Results, row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "better": row.better.value,
        "subjects": {subject: _subject(results, row, subject) for subject in results.subjects(row.name)},
        "ratio": _ratio(results, row),
        "limit": row.limit,
        "targets": [
            {"kind": target.kind.value, "bound": target.bound, "verdict": verdict and verdict.value}
            for target, verdict in zip(row.targets, results.verdicts(row), strict=True)
        ],
        "failed": results.errors(row.name),
    }


def _ratio(results: Results, row: Row) -> dict[str, Any] | None:
    ratio = results.ratio(row.name)
    return None if ratio is None else {**attrs.asdict(ratio), "confidence": CONFIDENCE}


def _subject(results: Results, row: Row, subject: str) -> dict[str, Any]:
    summary = results.summary(row.name, subject)
    assert summary is not None
    return {
        **attrs.asdict(summary),
        "other_share": results.other_share(row.name, subject),
        "share_of_limit": results.share_of_limit(row, subject),
        "samples": [{"value": each.value, **each.details} for each in results.samples(row.name, subject)],
    }
