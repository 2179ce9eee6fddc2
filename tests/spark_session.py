"""The Spark of the tests: one JVM for all, since its start and first queries take most of their time."""

from __future__ import annotations

import contextlib
import logging
import os
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError, find_kafka_format
from tidelog.plugins.spark_sink.environment import prepare_spark
from tidelog.plugins.spark_sink.java import JavaNotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKER_FACTORY: Final = "org/apache/spark/api/python/PythonWorkerFactory.class"
_LONG, _INTEGER = b"\x05", b"\x03"
"""Tags of a class file's constants; big-endian values of 8 and 4 bytes follow them."""


def patient_classes(folder: Path) -> Path:
    """Write Spark's class that starts Python workers, with longer waits, and return the folder that has it.

    Spark waits 10 s for the worker that plans a stream and 60 s for one of a task, which a busy machine
    exceeds. Both are constants of that class, not settings. The folder has to precede Spark's jars.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (jar,) = Path(spec.origin).parent.glob("jars/spark-core_*.jar")
    with zipfile.ZipFile(jar) as archive:
        code = archive.read(WORKER_FACTORY)
    patience_ms = int(DEADLINE_S * 1000)
    for tag, size, wait_ms in ((_LONG, 8, 10_000), (_INTEGER, 4, 60_000)):
        constant = tag + wait_ms.to_bytes(size, "big")
        # Another Spark may have other constants: then its waits are as they are.
        if code.count(constant) == 1:
            code = code.replace(constant, tag + patience_ms.to_bytes(size, "big"))
    file = folder / "classes" / WORKER_FACTORY
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(code)
    return folder / "classes"


@contextmanager
def formats_of_handlers_kept() -> Generator[None]:
    """Have Spark's loggers give their format only to handlers that have none.

    They do not propagate, so pytest adds the handlers of every later test to them, which would change format.
    """
    from pyspark.logger import PySparkLogger

    give_format = PySparkLogger.addHandler

    def add_handler(self: PySparkLogger, handler: logging.Handler) -> None:
        if handler.formatter is None:
            give_format(self, handler)
        else:
            logging.Logger.addHandler(self, handler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PySparkLogger, "addHandler", add_handler)
        yield


def local_settings(folder: Path) -> dict[str, bool | float | int | str | None]:
    """Settings of a small Spark that starts quickly and has its files in `folder`."""
    return {
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": str(patient_classes(folder)),
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

    with formats_of_handlers_kept(), pytest.MonkeyPatch.context() as patch:
        # Their present values, or none, are there again afterwards.
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
            patch.setenv(name, os.environ.get(name, ""))
        try:
            prepare_spark()
        except JavaNotFound as error:
            raise PeerUnavailableError("Spark", str(error)) from error
        settings = local_settings(folder)
        with contextlib.suppress(PeerUnavailableError):
            settings["spark.driver.extraClassPath"] = (
                f"{settings['spark.driver.extraClassPath']}{os.pathsep}{find_kafka_format()}/*"
            )
        # What fails for other reasons of a busy machine is tried again.
        with contextlib.chdir(folder):
            session = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
        yield session
        session.stop()
