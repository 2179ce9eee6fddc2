"""Writing with the format from all threads of a program.

Spark looks for data sources in Python in the session that is active in the calling thread. Reading and SQL
activate theirs. `df.write` and `df.writeStream` do not, and a new thread has none: there Spark finds no
format in Python, whether it is registered or not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

_FORMAT: Final = "tidelog"
_MARK: Final = "_activates_sessions"


def activate_in_all_threads() -> None:
    """Have writers of the format activate their session in a thread that has none; once is enough."""
    writers: tuple[Any, ...] = (DataFrameWriter, DataStreamWriter)
    for writer in writers:
        if not hasattr(writer.format, _MARK):
            writer.format = _activating(writer.format)


def _activating(choose_format: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    @wraps(choose_format)
    def method(self: Any, source: str) -> Any:
        if source.lower() == _FORMAT:
            _activate(self._spark)
        return choose_format(self, source)

    setattr(method, _MARK, True)
    return method


def _activate(session: Any) -> None:
    if SparkSession.getActiveSession() is None:
        # PySpark has no public method for that.
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
