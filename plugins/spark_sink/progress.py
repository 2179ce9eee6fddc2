"""What a query's progress lacks of sources in Python: metrics, and a description that can be read.

Spark fills `metrics` for sources in Java that implement `ReportsSourceMetrics`; its source for all formats in
Python does not, and its description is the name of its class. So both are made of the progress's offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_OF_PYTHON: Final = "PythonMicroBatchStream"


def source_progress(progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources in a query's progress, with `description` and `metrics` of those of this format.

    The metrics are those of Spark's own Kafka source, as texts: `avgOffsetsBehindLatest`,
    `maxOffsetsBehindLatest` and `minOffsetsBehindLatest`. A partition that has not been read counts from 0.
    Sources of other formats are returned unchanged.

    Args:
        progress: `query.lastProgress`, one of `query.recentProgress`, or `event.progress` of a listener
    """
    return [_completed(dict(source)) for source in progress["sources"]]


def _completed(source: dict[str, Any]) -> dict[str, Any]:
    if _OF_PYTHON not in source.get("description", ""):
        return source
    try:
        end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    except (AttributeError, TypeError, ValueError):
        return source  # offsets of another format in Python
    behind = [max(offset - end.get(partition, 0), 0) for partition, offset in latest.items()]
    topics = ",".join(sorted({topic for topic, _ in end | latest}))
    numbers = {"avg": sum(behind) / len(behind), "max": max(behind), "min": min(behind)} if behind else {}
    metrics = {f"{name}OffsetsBehindLatest": str(number) for name, number in numbers.items()}
    return {**source, "description": f"tidelog[{topics}]", "metrics": metrics}


def _offsets(text: str) -> dict[tuple[str, str], int]:
    # No topic can have a name with $: it marks what is stored beside the offsets.
    return {
        (topic, partition): int(offset)
        for topic, offsets in json.loads(text).items()
        if not topic.startswith("$")
        for partition, offset in offsets.items()
    }
