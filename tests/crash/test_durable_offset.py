"""What counts as durable after a process was killed, and after a log was cut."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.crash.core import Core
from tests.deadlines import DEADLINE_S
from tidelog.kernel import disk
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.snapshots import decode_snapshot, snapshot_name
from tidelog.kernel.maintenance import TimedFlush
from tidelog.kernel.testing import make_batch
from tidelog.plugins.storage_file.testing import DataFate, Device, NameFate, PowerCut, Recorder

ONLY_WHAT_WAS_SYNCED = PowerCut(DataFate.LOST, NameFate.LOST)


def append(partition: UnifiedLog, count: int, *, producer_id: int = -1) -> None:
    """Batches of one record, as an idempotent producer sends them if it has an id."""
    for _ in range(count):
        sequence = partition.log_end_offset if producer_id >= 0 else -1
        partition.append_nowait(
            make_batch([b"x" * 400], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        )


async def after_power_cut(recorder: Recorder, place: Path) -> Core:
    """A core on what was synced so far."""
    device = Device()
    recorder.catch_up()
    for operation in recorder.operations:
        device.apply(operation)
    ONLY_WHAT_WAS_SYNCED.leave(device, place / "data")
    core = Core(place)
    await core.open()
    return core


@pytest.fixture
def core(tmp_path: Path) -> Core:
    """On an empty directory, not open yet."""
    (tmp_path / "data").mkdir()
    return Core(tmp_path)


async def test_a_flush_after_a_kill_reaches_what_was_appended_before(core: Core, tmp_path: Path) -> None:
    recorder = Recorder(core.data)
    with recorder.installed():
        await core.open()
        partition = (await core.create("t", 1)).partitions[0]
        append(partition.log, 20)
        assert len(partition.log.store.segments()) > 2
        core.abandon()
        await core.open()
        partition = core.topics.get("t").partitions[0]
        assert partition.log.has_unflushed
        await partition.log.flush()
        core.abandon()
    again = await after_power_cut(recorder, tmp_path / "again")
    assert again.topics.get("t").partitions[0].log.log_end_offset == 20
    again.abandon()


async def test_a_retry_after_a_kill_is_not_acknowledged_before_it_is_durable(
    core: Core, tmp_path: Path
) -> None:
    recorder = Recorder(core.data)
    with recorder.installed():
        await core.open()
        partition = (await core.create("t", 1, flush_messages="1")).partitions[0]
        append(partition.log, 1, producer_id=7)
        core.abandon()
        await core.open()
        partition = core.topics.get("t").partitions[0]
        # Nobody is shown what the loss of power could take back.
        assert partition.log.high_watermark == 1
        result = partition.log.append_nowait(
            make_batch([b"x" * 400], producer_id=7, producer_epoch=0, base_sequence=0)
        )
        assert (result.base_offset, result.flush_due) == (0, False)
        core.abandon()
    again = await after_power_cut(recorder, tmp_path / "again")
    assert again.topics.get("t").partitions[0].log.log_end_offset == 1
    again.abandon()


@pytest.mark.parametrize(
    ("config", "left"),
    [({}, 0), ({"flush_ms": "1000"}, 5), ({"flush_messages": "1"}, 8)],
    ids=["page cache", "timed flush", "flush before acknowledge"],
)
async def test_the_loss_of_power_costs_what_docs_durability_says(
    core: Core, tmp_path: Path, config: Mapping[str, str], left: int
) -> None:
    """Five records, a look at what has waited for `flush.ms`, and three more; all acknowledged."""
    recorder = Recorder(core.data)
    with recorder.installed():
        await core.open()
        timed_flush = TimedFlush(core.topics, core.clock)
        (partition,) = (await core.create("t", 1, **config)).partitions
        for count in (5, 3):
            append(partition.log, count)
            await partition.log.wait_flushed(partition.log.log_end_offset - 1)
            if count == 5:
                await timed_flush.run()
                core.clock.advance(1000)
                await timed_flush.run()
        core.abandon()
    again = await after_power_cut(recorder, tmp_path / "again")
    assert again.topics.get("t").partitions[0].log.log_end_offset == left
    again.abandon()


async def test_a_cut_is_written_down_before_anything_is_appended_behind_it(core: Core) -> None:
    await core.open()
    partition = (await core.create("t", 1)).partitions[0]
    append(partition.log, 30)
    await partition.log.flush()
    await core.tasks.run("checkpoint recovery points")
    checkpoint = core.data / "recovery-point-offset-checkpoint"
    await partition.log.truncate_to(12)
    written = int(checkpoint.read_text().split()[-1])
    assert written <= partition.log.log_end_offset == 12
    core.abandon()


async def test_a_cut_waits_for_the_flush_under_way(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    await core.open()
    store = (await core.create("t", 1)).partitions[0].log.store
    partition = core.topics.get("t").partitions[0]
    append(partition.log, 4)
    flushing, go_on = threading.Event(), threading.Event()
    sync_data = disk.sync_data

    def slowly(fd: int) -> None:
        flushing.set()
        assert go_on.wait(DEADLINE_S)
        sync_data(fd)

    monkeypatch.setattr(disk, "sync_data", slowly)
    flush = threading.Thread(target=store.flush, daemon=True)
    flush.start()
    assert flushing.wait(DEADLINE_S)
    cut = threading.Thread(target=store.truncate_to, args=(2,), daemon=True)
    cut.start()
    cut.join(0.05)
    assert cut.is_alive()
    go_on.set()
    flush.join()
    cut.join()
    assert store.durable_offset <= store.log_end_offset == 2
    core.abandon()


async def test_a_roll_brings_the_old_segment_and_the_snapshot_of_its_producers_to_the_device(
    core: Core, tmp_path: Path
) -> None:
    recorder = Recorder(core.data)
    with recorder.installed():
        await core.open()
        partition = (await core.create("t", 1)).partitions[0]
        while len(partition.log.store.segments()) < 2:
            append(partition.log, 1, producer_id=7)
        core.tasks.run_jobs()
        core.abandon()
    rolled_at = partition.log.store.segments()[-1].base_offset
    (before,) = (core.data / "t-0").glob(f"{0:020d}.log")
    again = await after_power_cut(recorder, tmp_path / "again")
    partition = again.topics.get("t").partitions[0]
    # Below the recovery point nothing is read again, so log, indexes and names had to be there.
    assert partition.log.log_end_offset == rolled_at
    assert (again.data / "t-0" / before.name).read_bytes() == before.read_bytes()
    snapshot = partition.log.store.read_side_file(snapshot_name(rolled_at))
    assert snapshot is not None
    assert decode_snapshot(snapshot)[7].last_sequence == rolled_at - 1
    again.abandon()
