"""While the log is read back, clients are told to wait, and progress can be looked up."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from tidelog.kernel.errors import CoordinatorLoadInProgress
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch, OffsetToCommit
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.runtime import LoadedBatch, loading
from tidelog.plugins.coordinator.runtime.batches import decode_batches

GROUPS = [f"group-{number}" for number in range(20)]
OFFSETS = 100


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Generator[threading.Event]:
    """What the disk waits for before it gives anything of the log."""
    gate = threading.Event()

    def wait_and_decode(data: memoryview, from_offset: int) -> tuple[list[LoadedBatch], int]:
        gate.wait()
        return decode_batches(data, from_offset)

    monkeypatch.setattr(loading, "decode_batches", wait_and_decode)
    yield gate
    gate.set()


async def test_requests_wait_until_their_partition_was_read(tmp_path: Path, gate: threading.Event) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path), "offsets.topic.num.partitions": 2}
    async with running_broker({**settings, "num.partitions": OFFSETS}) as broker:
        await broker.topics.ensure("flights")
        await broker.coordinator.prepare_groups()
        offsets = [OffsetToCommit("flights", number, number) for number in range(OFFSETS)]
        for group_id in GROUPS:
            broker.coordinator.offsets.commit(OffsetCommit(group_id, offsets))
    async with running_broker(settings) as broker:
        coordinator = broker.coordinator
        progress = coordinator.loading["groups"]
        assert (progress.partitions, progress.loaded_partitions, progress.done) == (2, 0, False)
        for ask in (
            lambda: coordinator.offsets.fetch(OffsetFetch(GROUPS[0], None)),
            lambda: coordinator.offsets.commit(OffsetCommit(GROUPS[0], offsets)),
            lambda: coordinator.offsets.delete(GROUPS[0], [("flights", 0)]),
        ):
            with pytest.raises(CoordinatorLoadInProgress):
                ask()
        gate.set()
        while not progress.done:  # noqa: ASYNC110 nobody is told, it is a figure
            await trio.sleep(0.001)
        assert (progress.records, progress.loaded_partitions) == (len(GROUPS) * OFFSETS, 2)
        assert progress.bytes > progress.records * 40
        for group_id in GROUPS:
            assert len(coordinator.offsets.fetch(OffsetFetch(group_id, None))["flights"]) == OFFSETS
