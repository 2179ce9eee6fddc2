"""A topic is deleted while work on its files is queued or under way; a new one of its name is not touched."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from tests.deadlines import DEADLINE_S
from tidelog.kernel import disk
from tidelog.kernel.broker import Broker
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME, LeaderEpochLineage
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.storage.harness import slice_bytes

SMALL = {"segment.bytes": str(1024 * 1024)}
BATCH_BYTES = 600_000
"""Two of them do not fit into one segment."""


@pytest.fixture
def values(tmp_path: Path) -> dict[str, object]:
    """Configuration of a broker with files.

    It warns of work that fails, and not of a machine on which the event loop has to wait for its turn.
    """
    return {
        "storage": "file",
        "log.dirs": str(tmp_path / "data"),
        "log.segment.delete.delay.ms": 0,
        "event.loop.stall.ms": 0,
    }


async def create(broker: Broker, count: int = 0) -> UnifiedLog:
    """A topic with so many batches, each in a segment of its own."""
    await broker.topics.create(TopicSpec("t", 1, config=SMALL))
    (partition,) = broker.topics.get("t").partitions
    for number in range(count):
        partition.log.append_nowait(make_batch([bytes([number]) * BATCH_BYTES]))
    return partition.log


async def test_delete_of_a_topic_with_queued_work_and_a_new_one_of_its_name(
    values: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[tuple[str, Callable[[], object]]] = []
    async with running_broker(values) as broker:
        monkeypatch.setattr(broker.tasks, "in_thread", lambda name, job: queued.append((name, job)))
        old = await create(broker, 4)
        old.leader_epoch = 7
        old.append_nowait(make_batch([b"the last of epoch 7"]))
        old.delete_records_before(4)
        await broker.topics.delete("t")
        monkeypatch.undo()
        new = await create(broker, 4)
        await broker.tasks.wait_for_jobs()
        before = contents(tmp_path / "data/t-0")
        assert {name.split()[0] for name, _ in queued} == {"epochs", "snapshot", "delete", "snapshots"}
        for _, job in queued:
            await trio.to_thread.run_sync(job)
        assert contents(tmp_path / "data/t-0") == before
        content = new.store.read_side_file(CHECKPOINT_NAME)
        assert LeaderEpochLineage.decode(content or b"").entries() == [(0, 0)]
        assert new.log_start_offset == 0
        assert slice_bytes(new.read(0, 1, Isolation.READ_UNCOMMITTED, wait=True))[-100:-10] == bytes(90)


def contents(directory: Path) -> dict[str, int]:
    """Names and sizes."""
    return {path.name: path.stat().st_size for path in directory.iterdir()}


class StoppedRename:
    """`disk.rename` that stops before a checkpoint of leader epochs gets its name."""

    def __init__(self) -> None:
        self._rename = disk.rename
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, path: str | Path, new_path: str | Path) -> None:
        """Wait, then rename."""
        if str(new_path).endswith(CHECKPOINT_NAME):
            self.begun.set()
            assert self.go_on.wait(DEADLINE_S)
        self._rename(path, new_path)


async def test_delete_of_a_topic_waits_for_a_write(
    values: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_broker(values) as broker:
        stopped = StoppedRename()
        monkeypatch.setattr(disk, "rename", stopped)
        await create(broker, 1)
        assert await trio.to_thread.run_sync(stopped.begun.wait, DEADLINE_S)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.topics.delete, "t")
            await trio.to_thread.run_sync(time.sleep, 0.1)
            # Its directory keeps its name until the write in it is done.
            assert (tmp_path / "data/t-0").exists()
            stopped.go_on.set()
        assert not (tmp_path / "data/t-0").exists()
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("delete_records", [False, True])
async def test_create_and_delete_of_topics_under_load(
    values: dict[str, object], caplog: pytest.LogCaptureFixture, delete_records: bool
) -> None:
    async with running_broker(values) as broker:
        for number in range(25):
            partition = await create(broker, 1 + number % 4)
            if delete_records:
                partition.delete_records_before(partition.log_end_offset)
            if number % 5 == 0:
                await trio.lowlevel.checkpoint()
            await broker.topics.delete("t")
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
