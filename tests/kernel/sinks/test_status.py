"""The file with what sinks do, which `tidelog sinks` shows."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from tests.deadlines import wait_until
from tests.kernel.cli.running import printed_json, tidelog
from tests.kernel.sinks.plugin import plugin_with, running
from tidelog.kernel.config import Config
from tidelog.kernel.seams.sinks import SinkFeed
from tidelog.kernel.sinks.statistics import SinkState, SinkStatistics
from tidelog.kernel.sinks.status import FILE_NAME, read_status, status_file, write_status
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.storage_file.keys import LOG_DIR, LOG_DIRS


async def reporting(feed: SinkFeed) -> None:
    """A sink that reports how often it was told something."""
    count = 0
    async for _ in feed:
        count += 1
        feed.report(count=count, phase="busy")


def settings(plugin: str, folder: Path) -> dict[str, object]:
    """A broker in a folder with a sink."""
    return {
        "plugins": plugin,
        "storage": "file",
        "log.dirs": str(folder),
        "sinks": {"probe": {"test": {"topics": "t"}}},
    }


async def test_the_status_of_sinks_is_in_a_file_while_the_broker_runs(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME

    def details() -> object:
        return read_status(file).get("probe.test", {}).get("details")

    with plugin_with(running(reporting)) as plugin:
        async with running_broker(settings(plugin, tmp_path)) as broker:
            (partition,) = (await broker.topics.ensure("t")).partitions
            busy = {"count": 1, "phase": "busy"}
            await trio.to_thread.run_sync(wait_until, lambda: details() == busy, "the report")
            found = read_status(file)["probe.test"]
            assert (found["state"], found["failures"], found["lag"]) == ("running", 0, 0)
            assert broker.sinks.statistics()["probe.test"].details == busy
            partition.log.append_nowait(make_batch([b"x"] * 3))
            await trio.to_thread.run_sync(wait_until, lambda: details() != busy, "the next report")
            assert read_status(file)["probe.test"]["lag"] == 3
    assert not file.exists()


async def test_a_status_that_cannot_be_written_is_logged_once_and_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = 0

    def refuse_twice(file: Path, found: Mapping[str, SinkStatistics]) -> None:
        nonlocal refusals
        if refusals < 2:
            refusals += 1
            raise OSError("the disk is full")
        write_status(file, found)

    monkeypatch.setattr("tidelog.kernel.sinks.status.write_status", refuse_twice)
    with plugin_with(running(reporting)) as plugin, caplog.at_level(logging.WARNING):
        async with running_broker(settings(plugin, tmp_path)) as broker:
            file = status_file(broker.config)
            assert file is not None
            await trio.to_thread.run_sync(wait_until, lambda: bool(read_status(file)), "the status")
    assert caplog.text.count("cannot be written: the disk is full") == 1


def test_status_file_is_in_the_first_data_directory(tmp_path: Path) -> None:
    def file_of(**values: object) -> Path | None:
        given = {name.replace("_", "."): value for name, value in values.items()}
        return status_file(Config.from_mapping(given, [LOG_DIR, LOG_DIRS]))

    assert file_of(log_dirs=f"{tmp_path},/other") == tmp_path / FILE_NAME
    assert file_of(log_dir=str(tmp_path)) == tmp_path / FILE_NAME
    assert file_of(log_dirs=str(tmp_path / "missing")) is None
    assert status_file(Config.from_mapping({})) is None


def test_read_status_is_empty_when_the_broker_that_wrote_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    assert read_status(file) == {}
    write_status(file, {"probe.test": SinkStatistics()})
    assert list(read_status(file)) == ["probe.test"]
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    file.write_text(json.dumps({**json.loads(file.read_text()), "pid": ended.pid}))
    assert read_status(file) == {}
    file.write_text("{")
    assert read_status(file) == {}


def test_sinks_shows_what_the_sinks_of_a_running_broker_do(tmp_path: Path) -> None:
    failed = SinkStatistics(SinkState.WAITING, failures=2, last_error="ValueError('no')", lag=5)
    write_status(
        tmp_path / FILE_NAME,
        {"spark.a": SinkStatistics(SinkState.RUNNING, details={"batch": 7, "phase": "x"}), "spark.b": failed},
    )
    variables = {"TIDELOG_CONFIG": str(tmp_path / "broker.toml")}
    (tmp_path / "broker.toml").write_text(
        f'"log.dirs" = "{tmp_path}"\n[sinks.spark.a]\ntopics = "t"\ncheckpoint = "c"\npath = "t"\n'
    )
    lines = [line.split() for line in tidelog("sinks", **variables).stdout.splitlines()]
    assert lines[3:7] == [
        ["SINK", "STATE", "LAG", "FAILURES", "DETAILS"],
        ["spark.a", "running", "0", "0", "batch", "7,", "phase", "x"],
        ["spark.b", "waiting", "5", "2", "-"],
        ["Last", "error", "of", "spark.b:", "ValueError('no')"],
    ]
    (sink,) = printed_json("sinks", **variables)["sinks"]
    assert sink["status"]["details"] == {"batch": 7, "phase": "x"}


def test_read_status_does_not_take_an_unreadable_file_for_a_broker_that_does_not_run(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(IsADirectoryError):
        read_status(tmp_path / FILE_NAME)
