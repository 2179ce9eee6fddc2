"""The Spark of the tests: one JVM for all, since its start and first queries take most of their time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers import PeerUnavailableError, find_kafka_format
from tidelog.plugins.spark_sink.environment import prepare_spark
from tidelog.plugins.spark_sink.java import JavaNotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_settings(folder: Path) -> dict[str, bool | float | int | str | None]:
    """Settings of a small Spark that starts quickly and has its files in `folder`."""
    return {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        # A busy machine starts Python workers in more than the default of 15 s.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }


@contextmanager
def running_spark(folder: Path) -> Generator[SparkSession]:
    """A local session with two cores, which looks for files with relative names in `folder`.

    It has Spark's own format `kafka`, too, if that can be had.

    Raises PeerUnavailableError where there is no Java for it.
    """
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        # Their present values, or none, are there again afterwards.
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
            patch.setenv(name, os.environ.get(name, ""))
        try:
            prepare_spark()
        except JavaNotFound as error:
            raise PeerUnavailableError("Spark", str(error)) from error
        settings = local_settings(folder)
        with contextlib.suppress(PeerUnavailableError):
            settings["spark.driver.extraClassPath"] = f"{find_kafka_format()}/*"
        # Spark gives a Python worker a minute to start, however busy the machine is: tasks are tried again.
        with contextlib.chdir(folder):
            session = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
        yield session
        session.stop()
