"""One Spark session for all tests with Spark: it takes most of their time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.peers import PeerUnavailableError
from tidelog.plugins.spark_sink.environment import prepare_spark
from tidelog.plugins.spark_sink.java import JavaNotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores, in a folder of its own."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        # Their present values, or none, are there again afterwards.
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
            patch.setenv(name, os.environ.get(name, ""))
        try:
            prepare_spark()
        except JavaNotFound as error:
            raise PeerUnavailableError("Spark", str(error)) from error
        folder = tmp_path_factory.mktemp("spark")
        settings: dict[str, bool | float | int | str | None] = {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
        }
        session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        yield session
        session.stop()
