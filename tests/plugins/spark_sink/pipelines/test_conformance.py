"""Pipelines stand all that a sink has to stand, with an engine in place of Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.spark_sink.pipelines.micro_batches import forks
from tidelog.kernel import hookimpl
from tidelog.kernel.seams.sinks import SinkContext, SinkKind
from tidelog.kernel.testing.sinks import Delivered, SinkConformance
from tidelog.plugins.spark_sink.pipelines.kind import SparkKind
from tidelog.plugins.spark_sink.pipelines.sink import PipelineSink


class EngineKind(SparkKind):
    """Pipelines whose process has no Spark."""

    name = "engine"
    command: tuple[str, ...] = ()

    def create(self, context: SinkContext) -> PipelineSink:
        super().create(context)
        return PipelineSink(context, self.command)


@hookimpl
def tidelog_sinks() -> list[SinkKind]:
    return [EngineKind()]


@pytest.fixture(scope="module", autouse=True)
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The server that forks the processes of this module's pipelines."""
    with forks(tmp_path_factory.mktemp("forks")) as command:
        EngineKind.command = command
        yield


def delivered(folder: Path) -> list[Delivered]:
    found: list[Delivered] = []
    for file in folder.glob("table/*.json"):
        for topic, partition, offset, key, value in json.loads(file.read_text()):
            found.append(
                Delivered(
                    topic,
                    partition,
                    offset,
                    None if key is None else bytes.fromhex(key),
                    None if value is None else bytes.fromhex(value),
                )
            )
    return found


class TestPipelines(
    SinkConformance,
    plugin=sys.modules[__name__],
    kind="engine",
    settings={
        "checkpoint": "{folder}/checkpoint",
        "path": "{folder}/table",
        "fail.on.data.loss": "false",
        "stop.timeout.ms": "1000",
        # A topic that was deleted a moment ago is waited for.
        "reader.options": "fetchOffset.numRetries=1,kafka.default.api.timeout.ms=3000,"
        "kafkaConsumer.pollTimeoutMs=3000",
    },
    delivered=delivered,
    exactly_once=True,
):
    """A micro-batch is delivered when its file is there."""
