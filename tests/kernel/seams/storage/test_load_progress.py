"""How far the opening of logs is can be read at any time, and is shown to who waits for it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tidelog.kernel.cli.loading import PATIENCE_S, show_loading
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage.load_progress import LogLoadProgress
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.clock import START_MS


def test_add_logs_and_set_segments_count_remaining_logs_and_remaining_segments() -> None:
    progress = LogLoadProgress()
    progress.add_logs("a", 3)
    progress.add_logs("b", 5)
    progress.add_logs("a", 1)
    progress.set_segments("a-0", 12)
    progress.set_segments("b-1", 7)
    progress.logs_done("a", 2)
    progress.set_segments("a-0", 11)
    assert progress.total_logs == 9
    assert progress.remaining_logs == {"a": 2, "b": 5}
    assert progress.remaining_segments == {"a-0": 11, "b-1": 7}
    assert str(progress) == "7 of 9 logs are left, 18 segments in those under way"


async def test_remaining_logs_are_none_when_the_broker_is_ready(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    settings = {"storage": "file", "log.dirs": str(directory)}
    async with running_broker(settings) as broker:
        await broker.topics.ensure("t")
    async with running_broker(settings) as broker:
        assert broker.load_progress.total_logs == 1
        assert broker.load_progress.remaining_logs == {str(directory): 0}
        assert set(broker.load_progress.remaining_segments.values()) == {0}


async def test_remaining_segments_of_a_log_decrease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    async with running_broker(settings) as broker:
        topic = await broker.topics.create(TopicSpec("t", config={"segment.ms": "1"}))
        for number in range(5):
            topic.partitions[0].log.append_nowait(make_batch(timestamps=START_MS + 10 * number))
        assert len(topic.partitions[0].log.store.segments()) == 5
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(
        LogLoadProgress, "set_segments", lambda _, thread, count: told.append((thread, count))
    )
    async with running_broker(settings):
        assert told == [(f"{tmp_path / 'data'}-0", count) for count in (5, 4, 3, 2, 1, 0)]


async def test_remaining_logs_are_logged_during_a_long_start(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    progress = LogLoadProgress()
    progress.add_logs("data", 4)
    with trio.move_on_after(PATIENCE_S / 2):
        await show_loading(progress)
    assert not caplog.records
    with trio.move_on_after(PATIENCE_S + 25):
        await show_loading(progress)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["opening the logs: 4 of 4 logs are left, 0 segments in those under way"] * 3


async def test_a_long_start_without_remaining_logs_is_not_logged(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    progress = LogLoadProgress()
    progress.add_logs("data", 4)
    progress.logs_done("data", 4)
    for each in (LogLoadProgress(), progress):
        with trio.move_on_after(PATIENCE_S + 25):
            await show_loading(each)
    assert not caplog.records


class Terminal:
    """Standard error as a terminal has it."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.shown = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.shown += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


async def test_remaining_logs_are_a_progress_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    progress = LogLoadProgress()
    progress.add_logs("data", 40)
    progress.logs_done("data", 12)
    progress.set_segments("data-0", 345)
    with trio.move_on_after(PATIENCE_S + 1):
        await show_loading(progress)
    assert "12/40" in terminal.shown
    assert "345 segments" in terminal.shown
