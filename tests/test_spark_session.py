"""The Spark of the tests waits longer for its Python workers, and leaves handlers of later tests alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger

from tests.deadlines import DEADLINE_S
from tests.spark_session import WORKER_FACTORY, formats_of_handlers_kept, patient_classes

if TYPE_CHECKING:
    import pytest


def test_patient_classes_has_the_class_of_spark_with_longer_waits(tmp_path: Path) -> None:
    code = (patient_classes(tmp_path) / WORKER_FACTORY).read_bytes()
    deadline_ms = int(DEADLINE_S * 1000)
    assert code.startswith(b"\xca\xfe\xba\xbe")
    for tag, size, wait_ms in ((b"\x05", 8, 10_000), (b"\x03", 4, 60_000)):
        assert tag + wait_ms.to_bytes(size, "big") not in code
        assert tag + deadline_ms.to_bytes(size, "big") in code


def test_formats_of_handlers_kept_leaves_that_of_a_handler_of_pytest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = caplog.handler.formatter
    without = logging.StreamHandler()
    logger = PySparkLogger.getLogger("a logger of Spark")
    with formats_of_handlers_kept():
        logger.addHandler(caplog.handler)
        logger.addHandler(without)
    assert caplog.handler.formatter is before
    assert without.formatter is not None
    assert {caplog.handler, without} <= set(logger.handlers)
    logger.handlers.clear()
