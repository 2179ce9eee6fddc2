"""The format `tidelog` of Spark, which looks for modules whose names begin with `pyspark_`.

If any of these modules cannot be imported, Spark finds no data source at all, so this one always can. Where
something is missing or too old, the format says so when it is used.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.plugins.spark_sink.progress import source_progress

__all__ = ["DefaultSource", "register", "source_progress"]

try:
    from tidelog.plugins.spark_sink.required import require_spark

    require_spark()
    from tidelog.plugins.spark_sink.data_source import (
        TidelogDataSource as DefaultSource,  # pyright: ignore[reportAssignmentType]
    )
except Exception as error:
    _reason = error
    # Before PySpark 4.0 Spark knows no data sources in Python, and looks for none.
    with suppress(ImportError):
        from pyspark.sql.datasource import DataSource

        class DefaultSource(DataSource):  # type: ignore[no-redef]
            """Stands for the format, and raises why there is none."""

            @classmethod
            def name(cls) -> str:
                """Return the name of the format."""
                return "tidelog"

            def __init__(self, options: MutableMapping[str, str]) -> None:
                del options
                raise _reason


def __getattr__(name: str) -> Any:
    if name == "source_progress":
        # Not at the top: Spark's processes import this module to find the format.
        from tidelog.plugins.spark_sink.progress import source_progress

        return source_progress
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession) -> None:
    """Make the format `tidelog` known to a session that does not find it by itself, and to all threads.

    Raises:
        SparkNotUsable: PySpark or Arrow is missing or too old; the message names it. It is an ImportError.
    """
    from tidelog.plugins.spark_sink.required import require_spark

    require_spark()
    from tidelog.plugins.spark_sink.data_source import TidelogDataSource
    from tidelog.plugins.spark_sink.threads import activate_in_all_threads

    spark.dataSource.register(TidelogDataSource)
    activate_in_all_threads()
