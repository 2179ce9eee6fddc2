"""docs/spark-operations.md: the lag that the page computes."""

from __future__ import annotations

import json
from typing import Any

from tests.docs.examples import examples_of
from tidelog.plugins.client import TopicPartition
from tidelog.plugins.spark_sink.source.positions import to_json


def test_the_lag_of_a_query_is_what_lies_between_its_end_and_that_of_the_logs() -> None:
    [example] = examples_of("spark-operations.md")
    names: dict[str, Any] = {}
    exec(example.text, names)
    end = {TopicPartition("t", 0): 7, TopicPartition("u", 0): 1}
    latest = {**end, TopicPartition("t", 0): 10, TopicPartition("t", 1): 5}
    first = {"$start": to_json({}), **to_json(end)}
    offsets = {"endOffset": json.dumps(first), "latestOffset": json.dumps(to_json(latest))}
    source = {"description": "org.apache.spark...PythonMicroBatchStreamBase@1f", **offsets}
    assert names["lag"]({"sources": [source]}) == 5
