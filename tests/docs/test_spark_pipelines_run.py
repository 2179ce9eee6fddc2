"""docs/spark-pipelines.md: its pipeline writes each record once, though it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from confluent_kafka import Producer

from tests.deadlines import DEADLINE_S, wait_until
from tests.docs.examples import check, examples_of, run_example
from tests.kernel.cli.running import Serving, serving
from tests.spark_session import local_settings
from tidelog.kernel.sinks.status import FILE_NAME, read_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ADDRESS = "127.0.0.1:9092"
MORE_RECORDS = 2000


@pytest.fixture
def broker(spark_folder: Path, tmp_path: Path) -> Iterator[Serving]:
    """A broker with the page's pipeline, which has its files where Spark looks for them."""
    (file,) = [each for each in examples_of("spark-pipelines.md") if each.file_name == "broker.toml"]
    there = attrs.evolve(file, text=file.text.replace('"data"', f'"{tmp_path / "data"}"'))
    run_example(there, spark_folder)
    prefix = "TIDELOG_SINKS_SPARK_HEIGHTS"
    quick = {
        name: text
        for name, text in local_settings(tmp_path).items()
        if name.startswith(("spark.driver.extra", "spark.python", "spark.log"))
    }
    environment = {
        f"{prefix}_SPARK_CONF": json.dumps(quick),
        f"{prefix}_MAX_OFFSETS_PER_TRIGGER": "500",
        # What a micro-batch has done is seen before the next one ends.
        f"{prefix}_TRIGGER_INTERVAL_MS": "1500",
        f"{prefix}_NICE": "0",
        f"{prefix}_RETRY_BACKOFF_MS": "1",
    }
    with (
        contextlib.chdir(spark_folder),
        serving(tmp_path, "--config", "broker.toml", **environment) as running,
    ):
        yield running
        code = running.stop()
        print(running.stderr)
        assert code == 0


def test_the_pipeline_of_the_page_writes_each_record_once_though_it_is_killed(
    spark: SparkSession,
    spark_folder: Path,
    tmp_path: Path,
    broker: Serving,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def status() -> dict[str, Any]:
        return read_status(tmp_path / "data" / FILE_NAME).get("spark.heights", {"lag": -1, "details": {}})

    def await_batch() -> None:
        """Each step has a deadline of its own: a busy machine takes minutes to start Spark, and to plan."""
        wait_until(lambda: status()["details"].get("process") == "running", "a process of the pipeline")
        wait_until(lambda: "batch" in status()["details"], "its first micro-batch")

    address = broker.ready["listeners"]["PLAINTEXT"]
    for example in examples_of("spark-pipelines.md"):
        there = attrs.evolve(example, text=example.text.replace(ADDRESS, address))
        if there.text.startswith("tidelog spark"):
            runpy.run_path(str(spark_folder / example.text.split()[-1]), run_name="__main__")
            check(capsys.readouterr().out, there)
        elif there.file_name != "broker.toml":
            if there.text.startswith("until"):
                await_batch()
                wait_until(lambda: status()["lag"] == 0, "the first rows")
            run_example(there, spark_folder)

    before = status()["details"]["batch"]
    producer = Producer({"bootstrap.servers": address})
    for number in range(MORE_RECORDS):
        producer.produce("heights", value=json.dumps({"station": "more", "metres": number}))
    assert producer.flush(DEADLINE_S) == 0
    wait_until(lambda: status()["details"].get("batch", -1) > before, "the next micro-batch")
    killed = status()["details"]["process_id"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: status().get("failures", 0) > 0, "the failure")
    wait_until(lambda: status()["details"].get("process_id", killed) != killed, "another process")
    await_batch()
    wait_until(lambda: status()["lag"] == 0, "the rest of the records")
    rows = spark.read.parquet("heights").where("station = 'more'")
    assert (rows.count(), rows.select("metres").distinct().count()) == (MORE_RECORDS, MORE_RECORDS)
