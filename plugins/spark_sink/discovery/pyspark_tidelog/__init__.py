"""The format `tidelog` of Spark, which looks for modules whose names begin with `pyspark_`.

If any of these modules cannot be imported, Spark finds no data source at all, so this one always can.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "register"]

with suppress(Exception):  # without PySpark, or with one that is too old, there is nothing to offer
    from tidelog.plugins.spark_sink.data_source import TidelogDataSource as DefaultSource


def register(spark: SparkSession) -> None:
    """Make the format `tidelog` known to a session that does not find it by itself.

    Raises:
        ImportError: PySpark or Arrow is missing or too old; the message names it.
    """
    from tidelog.plugins.spark_sink.data_source import TidelogDataSource

    spark.dataSource.register(TidelogDataSource)
