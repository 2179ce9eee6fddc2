"""The metrics and the description of sources in a query's progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tables import for_each
from tidelog.plugins.spark_sink.progress import source_progress

PYTHON = (
    "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@7c"
)


def source(end: Any, latest: Any, description: str = PYTHON) -> dict[str, Any]:
    texts = [None if each is None else json.dumps(each) for each in (end, latest)]
    return {"description": description, "endOffset": texts[0], "latestOffset": texts[1], "metrics": {}}


def behind(average: str, most: str, least: str) -> dict[str, str]:
    return {
        "avgOffsetsBehindLatest": average,
        "maxOffsetsBehindLatest": most,
        "minOffsetsBehindLatest": least,
    }


@for_each(
    ("end", "latest", "topics", "metrics"),
    [
        ({"t": {"0": 7, "1": 5}}, {"t": {"0": 10, "1": 5}}, "t", behind("1.5", "3", "0")),
        ({"u": {"0": 1}, "t": {"0": 1}}, {"t": {"0": 1}, "u": {"0": 1}}, "t,u", behind("0.0", "0", "0")),
        ({"$start": {"t": {"0": 3}}, "t": {"0": 7}}, {"t": {"0": 8}}, "t", behind("1.0", "1", "1")),
        ({"t": {"0": 7}}, {"t": {"0": 7, "1": 4}}, "t", behind("2.0", "4", "0")),
        ({"t": {"0": 7}}, {"t": {"0": 5}}, "t", behind("0.0", "0", "0")),
        ({}, {}, "", {}),
    ],
)
def test_source_progress_has_the_metrics_of_sparks_kafka_source(
    end: Any, latest: Any, topics: str, metrics: dict[str, str]
) -> None:
    given = source(end, latest)
    [found] = source_progress({"sources": [given]})
    assert found == {**given, "description": f"tidelog[{topics}]", "metrics": metrics}


@pytest.mark.parametrize(
    "given",
    [
        source({"t": {"0": 7}}, {"t": {"0": 9}}, "KafkaV2[Subscribe[t]]"),
        source(None, None),
        source({"t": {"0": 7}}, None),
        source({"position": 5}, {"position": 7}),
        source([5], [7]),
    ],
)
def test_source_progress_leaves_other_sources_unchanged(given: dict[str, Any]) -> None:
    assert source_progress({"sources": [given]}) == [given]
