"""The sink keeps the contract of its seam."""

from pathlib import Path

import parquet_sink
import pyarrow.parquet as pq

from tidelog.kernel.testing.sinks import Delivered, SinkConformance


def delivered(folder: Path) -> list[Delivered]:
    if not any(folder.rglob("[0-9]*.parquet")):
        return []
    rows = pq.read_table(folder).to_pylist()
    return [
        Delivered(row["topic"], int(row["partition"]), row["offset"], row["key"], row["value"])
        for row in rows
    ]


class TestParquetSink(
    SinkConformance,
    plugin=parquet_sink,
    settings={"path": "{folder}", "interval.ms": "1"},
    delivered=delivered,
    exactly_once=True,
):
    """Stands all that a sink has to stand; `{folder}` is an empty directory."""
