"""docs/spark-pipelines.md: its configuration is a pipeline, and mistakes are reported as the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.docs.examples import examples_of, run_example
from tidelog.kernel.config import Config, ConfigKeys, read_sources
from tidelog.plugins.spark_sink.pipelines.checks import pipeline_of
from tidelog.plugins.spark_sink.pipelines.keys import KEYS
from tidelog.plugins.storage_file.keys import LOG_DIRS

EXAMPLES = examples_of("spark-pipelines.md")


def test_the_configuration_of_the_page_is_a_pipeline(tmp_path: Path) -> None:
    (file,) = [example for example in EXAMPLES if example.file_name == "broker.toml"]
    run_example(file, tmp_path)
    keys = ConfigKeys([LOG_DIRS], sink_kinds={"spark": KEYS})
    (sink,) = Config(read_sources(tmp_path / "broker.toml"), keys).sinks
    made = pipeline_of(sink)
    assert (made.topics, made.output.path, made.checkpoint) == (("heights",), "heights", "heights-checkpoint")
    assert made.select[:2] == ("value.station", "value.metres")


def test_mistakes_are_reported_as_the_page_shows(tmp_path: Path) -> None:
    (file,) = [example for example in EXAMPLES if example.file_name == "broker.toml"]
    (mistakes,) = [example for example in EXAMPLES if example.text.startswith("tidelog serve")]
    assert mistakes.prints
    run_example(file, tmp_path)
    run_example(mistakes, tmp_path)
