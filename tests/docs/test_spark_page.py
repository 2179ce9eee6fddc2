"""docs/spark.md: the examples do what the page says, and its table has the options and their defaults."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.docs.examples import DOCS, Example, check, examples_of, run_example, run_example_on
from tests.peers import running_tidelog
from tidelog.plugins.spark_sink.kafka_keys import CONNECTION_OPTIONS
from tidelog.plugins.spark_sink.rows import SCHEMA_WITH_HEADERS
from tidelog.plugins.spark_sink.source.options import NAMES, parse_options
from tidelog.plugins.spark_sink.writer.options import NAMES as WRITER_NAMES
from tidelog.plugins.spark_sink.writer.options import parse_writer_options
from tidelog.testing import KafkaServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDRESS = "127.0.0.1:9092"
PAGE = (DOCS / "spark.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]


def test_the_examples_work_one_after_the_other(
    spark: SparkSession, spark_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_script(example: Example) -> None:
        """In this process, whose session it gets: another JVM would take most of the time."""
        runpy.run_path(str(spark_folder / example.text.split()[-1]), run_name="__main__")
        check(capsys.readouterr().out, example)

    assert spark.version
    with running_tidelog(tmp_path) as broker:
        for example in examples_of("spark.md"):
            there = attrs.evolve(example, text=example.text.replace(ADDRESS, broker.bootstrap))
            if there.text.startswith("tidelog spark"):
                run_script(there)
            elif "tidelog topics" in there.text:
                run_example_on(there, broker.bootstrap, spark_folder)
            else:
                run_example(there, spark_folder)


def test_the_example_of_the_page_about_testing_works(spark: SparkSession) -> None:
    (example,) = [each for each in examples_of("testing-applications.md") if "pyspark" in each.text]
    assert spark.version
    with KafkaServer() as kafka:
        names: dict[str, Any] = {}
        exec(example.text, names)
        names["test_orders_are_read_by_spark"](kafka)


def test_the_table_of_options_has_all_options() -> None:
    named = [name for cells in rows("Options of reading") for name in re.findall(r"`([\w.]+)`", cells[0])]
    assert sorted(named) == sorted(NAMES)


def test_the_table_of_options_has_the_defaults() -> None:
    """As values, they change nothing."""
    base = {"kafka.bootstrap.servers": ADDRESS, "subscribe": "t"}
    table = {
        cells[0].strip("`"): cells[1].strip("`")
        for cells in rows("Options of reading")
        if re.fullmatch(r"`[\w.]+`", cells[1]) and "," not in cells[0]
    }
    assert len(table) > 15
    assert parse_options({**base, **table}, streaming=True) == parse_options(base, streaming=True)


def test_the_table_of_options_of_writing_has_all_options_but_those_of_connections() -> None:
    named = {name for cells in rows("Options of writing") for name in re.findall(r"`([\w.]+)`", cells[0])}
    assert set(WRITER_NAMES) - set(CONNECTION_OPTIONS) <= named <= set(WRITER_NAMES)


def test_the_table_of_options_of_writing_has_the_defaults() -> None:
    base = {"kafka.bootstrap.servers": ADDRESS}
    table = {
        cells[0].strip("`"): value[1]
        for cells in rows("Options of writing")
        if (value := re.match(r"`([\w.]+)`", cells[1]))
    }
    assert len(table) == 12
    assert parse_writer_options({**base, **table}, streaming=True) == parse_writer_options(
        base, streaming=True
    )


def test_the_table_of_columns_has_all_columns() -> None:
    named = [name for cells in rows("Columns") for name in re.findall(r"`(\w+)`", cells[0])]
    assert named == SCHEMA_WITH_HEADERS.names
