"""A session of Spark without a JVM: it keeps what it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import MagicMock

import attrs
import pytest
from pyspark import SparkContext

from tidelog.plugins.spark_sink.load import spark

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
RECORDS = 3
"""The value of whatever is observed."""


class JavaColumn:
    """A column of the JVM, of which only the name is known."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> object:
        if name != "as":
            raise AttributeError(name)
        return JavaColumn


class Observation:
    """See Spark's."""

    get: dict[str, int]


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        """Change one."""
        self[name] = value


@attrs.define
class Written:
    """What is written, and how."""

    columns: list[str]
    format_name: str = ""
    options: dict[str, str] = attrs.field(factory=dict[str, str])
    folders: tuple[str, ...] = ()
    path: str = ""


@attrs.define
class Frame:
    """A table with columns of these names."""

    session: Session
    columns: list[str]

    def withColumn(self, name: str, column: Any) -> Frame:  # noqa: N802
        self.session.derived[name] = column._jc.name
        return attrs.evolve(self, columns=[*self.columns, name])

    def selectExpr(self, *expressions: str) -> Frame:  # noqa: N802
        return attrs.evolve(self, columns=[each.rpartition(" AS ")[2] for each in expressions])

    def observe(self, observation: Observation, column: Any) -> Frame:
        observation.get = {column._jc.name: RECORDS}
        return self

    @property
    def write(self) -> Writer:
        return Writer(self.session, Written(self.columns))


@attrs.define
class Writer:
    """Writes nothing, and calls the session's `on_save`."""

    session: Session
    written: Written

    def format(self, name: str) -> Writer:
        self.written.format_name = name
        return self

    def options(self, **given: str) -> Writer:
        self.written.options |= given
        return self

    def partitionBy(self, *columns: str) -> Writer:  # noqa: N802
        self.written.folders = columns
        return self

    def save(self, path: str) -> None:
        self.written.path = path
        self.session.written.append(self.written)
        self.session.on_save()


@attrs.define
class Reader:
    """Loads a table; its options are kept."""

    session: Session
    given: dict[str, str] = attrs.field(factory=dict[str, str])

    def format(self, name: str) -> Reader:
        assert name == "tidelog"
        return self

    def options(self, **given: str) -> Reader:
        self.given |= given
        return self

    def load(self) -> Frame:
        self.session.reads.append(self.given)
        return Frame(self.session, COLUMNS)


class Session:
    """Stands for a SparkSession."""

    def __init__(self) -> None:
        self.conf = Conf()
        self.reads: list[dict[str, str]] = []
        self.derived: dict[str, str] = {}
        self.written: list[Written] = []
        self.on_save: Callable[[], None] = lambda: None
        self.sparkContext: Any = MagicMock()
        self.sparkContext.statusTracker().getJobIdsForGroup.return_value = []

    @property
    def read(self) -> Reader:
        return Reader(self)


def fake_session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return a session; columns are made without a JVM, too."""
    context = MagicMock()
    context._jvm.functions.col.side_effect = JavaColumn
    functions = getattr(context._jvm, "org.apache.spark.sql.functions")
    functions.count.side_effect = lambda _: JavaColumn("count")
    functions.to_date.side_effect = lambda column: JavaColumn(f"to_date({column.name})")
    functions.hour.side_effect = lambda column: JavaColumn(f"hour({column.name})")
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    monkeypatch.setattr(spark, "Observation", Observation)
    return Session()


class Jobs:
    """The jobs of a context: none at first, then two, of which one is known; Spark forgets old ones."""

    def __init__(self, session: Session) -> None:
        self._group = ""
        self._looks = 0
        session.sparkContext.setJobGroup = self._set_group
        session.sparkContext.statusTracker.return_value = self

    def _set_group(self, group: str, _description: str) -> None:
        self._group = group

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802
        assert group == self._group
        self._looks += 1
        return [] if self._looks == 1 else [1, 2]

    def getJobInfo(self, number: int) -> Any:  # noqa: N802
        return {1: SimpleNamespace(stageIds=[10, 11, 12])}.get(number)

    def getStageInfo(self, number: int) -> Any:  # noqa: N802
        stages = {10: (5, 5), 11: (3, 1)}
        found = stages.get(number)
        return found and SimpleNamespace(numTasks=found[0], numCompletedTasks=found[1])


class Starts:
    """Stands for the start of Spark; keeps its settings and what it is called with."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.active: Session | None = None
        self.settings: dict[str, str] = {}
        self.fails = False
        patch.setattr(spark, "prepare_spark", lambda: self.calls.append("prepare"))
        patch.setattr(spark, "start_context", self._start)
        patch.setattr(spark, "SparkSession", self)

    def _start(self, settings: dict[str, str], output: IO[bytes]) -> str:
        output.write(b"what Java says")
        if self.fails:
            raise RuntimeError("Java gateway process exited")
        self.settings = settings
        return "session"

    def getActiveSession(self) -> Session | None:  # noqa: N802
        return self.active

    def __call__(self, context: str) -> Starts:
        self.calls.append(context)
        return self

    def stop(self) -> None:
        self.calls.append("stop")
