"""docs/load.md: the examples do what the page says, and its messages are those of the program."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from tests.docs.examples import DOCS, Example, check, examples_of, run_example, run_example_on
from tests.peers import running_tidelog
from tidelog.plugins.spark_sink.load.command import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (DOCS / "load.md").read_text()


def test_the_examples_work_one_after_the_other(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_load(example: Example, bootstrap: str) -> None:
        """In this process, whose session it gets: another JVM would take most of the time."""
        words = shlex.split(example.text.replace("\\\n", " "))[2:]
        with contextlib.chdir(tmp_path):
            load.main([*words, "--bootstrap-server", bootstrap], standalone_mode=False)
        check(capsys.readouterr().out, example)

    assert spark.version
    with running_tidelog(tmp_path) as broker:
        for example in examples_of("load.md"):
            text = example.text.replace("127.0.0.1:9092", broker.bootstrap)
            there = attrs.evolve(example, text=text.replace("-dir data", f"-dir {broker.data_dir}"))
            if there.text.startswith("tidelog load"):
                run_load(there, broker.bootstrap)
            elif there.text.startswith("tidelog topics"):
                run_example_on(there, broker.bootstrap, tmp_path)
            else:
                run_example(there, tmp_path)


def test_the_flags_of_the_page_exist() -> None:
    flags = {flag for option in load.params for flag in option.opts}
    others = {"--config", "--partitions", "--help"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= flags | others
