"""The process of a pipeline is started, informed, run again when it fails, and stopped with the broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from tests.deadlines import DEADLINE_S, wait_until
from tests.kernel.sinks.plugin import plugin_with
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.sinks import SinkContext
from tidelog.kernel.sinks.statistics import SinkState, SinkStatistics
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import new_broker, running_broker
from tidelog.plugins.spark_sink.pipelines.definition import Output, Pipeline
from tidelog.plugins.spark_sink.pipelines.kind import SparkKind
from tidelog.plugins.spark_sink.pipelines.process import DRIVER
from tidelog.plugins.spark_sink.pipelines.sink import PipelineSink

FAKE = (sys.executable, str(Path(__file__).with_name("fake_driver.py")))


class FakeKind(SparkKind):
    """Pipelines with a fake process."""

    name = "fake"

    def create(self, context: SinkContext) -> PipelineSink:
        super().create(context)
        return PipelineSink(context, FAKE)


def settings(folder: Path, fake: str, **more: object) -> dict[str, object]:
    """A pipeline whose process does this."""
    return {
        "topics": "t",
        "path": str(folder / "table"),
        "checkpoint": str(folder / "checkpoint"),
        "spark.conf": f"spark.fake={fake},spark.log={folder / 'log'}",
        "retry.backoff.ms": 1,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def running(plugin: str, pipeline: dict[str, object]) -> AbstractAsyncContextManager[Broker]:
    """A broker with this pipeline, with the name p."""
    return running_broker({"plugins": plugin, "sinks": {"fake": {"p": pipeline}}})


def statistics(broker: Broker) -> SinkStatistics:
    """What the pipeline has done."""
    return broker.sinks.statistics()["fake.p"]


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something outside of the event loop."""
    await trio.to_thread.run_sync(wait_until, condition, what)


async def until_logged(folder: Path, lines: int) -> Sequence[str]:
    """Wait until the processes have logged so many lines."""
    await until(lambda: len(logged(folder)) >= lines, f"{lines} lines of the log")
    return logged(folder)


def logged(folder: Path) -> list[str]:
    """What the processes have logged."""
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


async def test_the_process_is_told_of_news_and_stopped_with_the_broker(tmp_path: Path) -> None:
    with plugin_with(FakeKind()) as plugin:
        async with running(plugin, settings(tmp_path, "serves")) as broker:
            (partition,) = (await broker.topics.ensure("t")).partitions
            assert await until_logged(tmp_path, 2) == ["started", "news"]
            partition.log.append_nowait(make_batch([b"x"] * 3))
            assert (await until_logged(tmp_path, 3))[2:] == ["news"]
            assert statistics(broker).state is SinkState.RUNNING
            # It reports that one record is delivered, before there is a topic or after.
            await until(lambda: statistics(broker).lag == 2, "the report")
        assert statistics(broker).state is SinkState.ENDED
        assert statistics(broker).failures == 0
    assert logged(tmp_path)[-1] == "stop"


async def test_the_process_learns_where_the_files_of_the_broker_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = {"storage": "file", "log.dirs": f"data,{tmp_path / 'more'}"}
    with plugin_with(FakeKind()) as plugin:
        sinks = {"fake": {"p": settings(tmp_path, "tells its files")}}
        async with running_broker({"plugins": plugin, "sinks": sinks, **there}):
            _, files = await until_logged(tmp_path, 2)
    assert files == f"{tmp_path / 'data'},{tmp_path / 'more'}"


async def test_a_pipeline_is_starting_until_its_query_runs_and_can_be_stopped_then(tmp_path: Path) -> None:
    with plugin_with(FakeKind()) as plugin:
        async with running(plugin, settings(tmp_path, "starts")) as broker:
            (partition,) = (await broker.topics.ensure("t")).partitions
            partition.log.append_nowait(make_batch([b"x"]))
            await until(lambda: "process" in statistics(broker).details, "the report")
            found = statistics(broker)
            assert (found.state, found.details["process"], found.failures) == (
                SinkState.STARTING,
                "starting",
                0,
            )
    assert logged(tmp_path)[-1] == "stop"


async def test_news_is_only_of_its_topics(tmp_path: Path) -> None:
    with plugin_with(FakeKind()) as plugin:
        async with running(plugin, settings(tmp_path, "serves")) as broker:
            await until_logged(tmp_path, 1)
            (partition,) = (await broker.topics.ensure("other")).partitions
            partition.log.append_nowait(make_batch([b"x"]))
    assert logged(tmp_path) == ["started", "stop"]


@pytest.mark.parametrize(
    ("fake", "error"),
    [
        ("fails", "ValueError: no tide"),
        ("dies", "its process was ended by SIGKILL"),
        ("garbles", "this is no report"),
    ],
)
async def test_a_process_that_fails_is_started_again(tmp_path: Path, fake: str, error: str) -> None:
    with plugin_with(FakeKind()) as plugin:
        async with running(plugin, settings(tmp_path, fake)) as broker:
            await until_logged(tmp_path, 3)
            found = statistics(broker)
            assert found.failures >= 2
            assert found.last_error is not None
            assert error in found.last_error


async def test_a_process_that_does_not_stop_is_ended_with_all_that_it_has_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with plugin_with(FakeKind()) as plugin:
        pipeline = settings(tmp_path, "never stops", stop_timeout_ms=1)
        async with running(plugin, pipeline):
            _, child = await until_logged(tmp_path, 2)
    assert "pipeline p: its micro-batch has not ended in 0.001 s" in caplog.text
    await until(lambda: not is_running(int(child)), "the end of what the process has started")


def is_running(process_id: int) -> bool:
    """Whether there is such a process that is not only waiting to be looked after by its parent."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_a_process_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    class Broken(FakeKind):
        def create(self, context: SinkContext) -> PipelineSink:
            return PipelineSink(context, ["/no/such/program"])

    with plugin_with(Broken()) as plugin:
        async with running(plugin, settings(tmp_path, "")) as broker:
            await until(lambda: bool(statistics(broker).failures), "a failure")
            assert "FileNotFoundError" in str(statistics(broker).last_error)


async def test_a_configuration_that_cannot_work_stops_the_start(tmp_path: Path) -> None:
    one = settings(tmp_path, "serves")
    with plugin_with(FakeKind()) as plugin:
        for sinks, problem in (
            (
                {"p": {**one, "format": "parqet"}},
                r"\[sinks.fake.p\]: format is 'parqet'; did you mean parquet",
            ),
            ({"p": one, "q": one}, r"checkpoint is that of \[sinks.fake.q\], too"),
        ):
            with pytest.raises(ConfigError, match=problem):
                async with new_broker({"plugins": plugin, "sinks": {"fake": sinks}}).running():
                    pass


def test_the_driver_ends_when_the_broker_has_died(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    pipeline = Pipeline(name="p", source_options={}, output=Output(), checkpoint=str(tmp_path / "c"))
    with subprocess.Popen(
        [*DRIVER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, "JAVA_HOME": ""},
    ) as driver:
        driver.communicate(pipeline.to_text() + "\n", timeout=DEADLINE_S)
    assert driver.returncode == -9
    assert not folder.exists()
