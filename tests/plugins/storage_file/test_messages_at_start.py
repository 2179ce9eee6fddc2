"""What a start says in the log about partitions: nothing about those that came by a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing.broker import running_broker


async def test_open_partitions_does_not_warn_of_partitions_added_to_a_loaded_topic(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path)}
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("flights", 2))
    async with running_broker(settings) as broker:
        await broker.topics.grow("flights", 4)
        assert len(broker.topics.get("flights").partitions) == 4
    assert "is not there" not in caplog.text


async def test_open_partitions_warns_of_a_missing_partition_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path)}
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("flights", 2))
    for path in (tmp_path / "flights-1").iterdir():
        path.unlink()
    (tmp_path / "flights-1").rmdir()
    async with running_broker(settings):
        pass
    assert "flights-1 is not there, though its topic is known" in caplog.text
