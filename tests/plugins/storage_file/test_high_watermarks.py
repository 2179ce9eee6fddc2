"""The checkpoint of high watermarks: written at intervals and at a clean stop, and read at the start."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import eventually
from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker

INTERVAL = "replica.high.watermark.checkpoint.interval.ms"
CHECKPOINT = "replication-offset-checkpoint"
NEVER_MS = 10**9


@asynccontextmanager
async def broker_on(place: Path, interval_ms: int) -> AsyncGenerator[Broker]:
    """With a topic of two partitions."""
    settings = {"storage": "file", "log.dirs": str(place), INTERVAL: interval_ms}
    async with running_broker(settings) as broker:
        if broker.topics.find("t") is None:
            await broker.topics.create(TopicSpec("t", 2))
        yield broker


def append(broker: Broker, partition: int, count: int) -> None:
    for _ in range(count):
        broker.topics.get("t").partitions[partition].log.append_nowait(make_batch([b"value"]))


async def test_high_watermarks_are_written_periodically(tmp_path: Path) -> None:
    written = tmp_path / CHECKPOINT
    async with broker_on(tmp_path, 10) as broker:
        append(broker, 0, 3)
        await eventually(lambda: written.exists() and written.read_text() == "0\n2\nt 0 3\nt 1 0\n")


async def test_high_watermarks_are_written_at_a_clean_shutdown(tmp_path: Path) -> None:
    written = tmp_path / CHECKPOINT
    for rounds in (1, 2):
        async with broker_on(tmp_path, NEVER_MS) as broker:
            append(broker, 0, 3)
            append(broker, 1, 7)
        assert written.read_text() == f"0\n2\nt 0 {3 * rounds}\nt 1 {7 * rounds}\n"


async def test_checkpointed_high_watermark_is_read_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_on(tmp_path, NEVER_MS) as broker:
        append(broker, 0, 3)
        append(broker, 1, 3)
    (tmp_path / CHECKPOINT).write_text("0\n2\nt 0 1\nt 1 9\n")
    async with broker_on(tmp_path, NEVER_MS) as broker:
        first, second = broker.topics.get("t").partitions
        assert [each.log.store.checkpointed_high_watermark for each in (first, second)] == [1, 9]
        # This broker leads, and there is no other replica that would have to have anything.
        assert [each.log.high_watermark for each in (first, second)] == [3, 3]
    lost = [message for message in caplog.messages if "readers had been shown" in message]
    assert len(lost) == 1
    assert "ends at offset 3, and readers had been shown what is below 9" in lost[0]
