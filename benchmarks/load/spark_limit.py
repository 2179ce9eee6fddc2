"""A format whose rows lie ready in each task: how many Spark takes from Python, whoever decodes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

_ROWS = 9_000
"""Of one Arrow record batch: about as many as the format `tidelog` puts into it."""
_KEY, _VALUE = b"k" * 13, b"v" * 100


class ReadyTask(InputPartition):
    """So many rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class ReadyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One micro-batch, with as many rows in each task."""

    def __init__(self, rows: int, tasks: int) -> None:
        self._rows, self._tasks = rows, tasks

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the beginning."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return none."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: there is never more."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end."""
        return {"rows": self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the tasks."""
        return [ReadyTask(self._rows // self._tasks)] * self._tasks if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the same rows again and again."""
        left = partition.rows if isinstance(partition, ReadyTask) else 0
        ready = _ready(_ROWS)
        while left > 0:
            yield ready.slice(0, left)
            left -= _ROWS


class ReadyRows(DataSource):
    """The format `ready`: `rows` rows in `tasks` tasks, with the columns of the format `tidelog`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ready"

    def schema(self) -> StructType:
        """Return the columns of the format `tidelog`."""
        return TidelogDataSource({}).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return ReadyReader(int(self.options["rows"]), int(self.options["tasks"]))


def _ready(rows: int) -> pa.RecordBatch:
    columns = {
        "key": [_KEY] * rows,
        "value": [_VALUE] * rows,
        "topic": ["topic"] * rows,
        "partition": [0] * rows,
        "offset": range(rows),
        "timestamp": [1_700_000_000_000_000] * rows,
        "timestampType": [0] * rows,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
