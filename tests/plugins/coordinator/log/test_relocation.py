"""What earlier versions kept in the wrong partitions is moved at the first start, wherever that ends."""

from __future__ import annotations

import logging
import random
import shutil
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.deadlines import wait_until
from tests.plugins.coordinator import misplacing
from tests.plugins.coordinator.misplacing import (
    COMMITTED,
    COUNT,
    OPEN,
    PENDING,
    TOPIC,
    TRANSACTION_STATES,
    committed_offsets,
    described_groups,
    expected_offsets,
    is_unstable,
    loaded,
    log_ends,
    misplaced_keys,
    settings,
    transaction_states,
)
from tidelog.kernel.broker import Broker
from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.errors import CoordinatorLoadInProgress
from tidelog.kernel.partition import Partition
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch, OffsetToCommit
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.hashing import partition_for
from tidelog.plugins.coordinator.log import LoadedBatch, loading
from tidelog.plugins.coordinator.log.batches import decode_batches
from tidelog.plugins.storage_file.testing import PROCESS_ENDS, DataFate, NameFate, PowerCut, Recorder

CUTS = 8
DAY_MS = 86_400_000
SEED = 17
FLUSHED = {"log.flush.interval.messages": 1}
"""What transactions need to survive a power failure."""


@pytest.fixture
async def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that an earlier version filled."""
    data = tmp_path / "old"
    await misplacing.fill(data, monkeypatch)
    return data


async def check_state(broker: Broker) -> None:
    """Everything is there, where Kafka looks for it, and nowhere else."""
    await loaded(broker)
    assert committed_offsets(broker) == expected_offsets()
    assert is_unstable(broker, PENDING)
    assert await transaction_states(broker) == TRANSACTION_STATES
    classic, consumer = described_groups(broker)
    assert "member-1" in repr(classic)
    assert "epoch=7" in repr(consumer)
    assert misplaced_keys(broker) == []


async def check_end(broker: Broker) -> None:
    """The open transaction commits, its offsets count, and nothing holds up readers of committed data."""
    transactions = broker.coordinator.transactions
    described = transactions.describe(OPEN)
    await transactions.end(OPEN, described.producer, commit=True)
    assert committed_offsets(broker) == expected_offsets(open_committed=True)
    assert not is_unstable(broker, PENDING)
    partitions = [each for topic in (*misplacing.LOGS, TOPIC) for each in broker.topics.get(topic).partitions]
    # A marker for a partition that was still being loaded is written again some time later.
    await trio.to_thread.run_sync(
        wait_until,
        lambda: all(each.last_stable_offset == each.log_end_offset for each in partitions),
        "the end of every transaction",
    )
    assert misplaced_keys(broker) == []


async def check_starts_after(
    cut: PowerCut,
    moments: Collection[int],
    recorder: Recorder,
    tmp_path: Path,
    *,
    with_end: bool = True,
) -> None:
    """Start from what is left when the machine ends after so many operations, for each of these counts."""
    device = recorder.start
    for done, operation in enumerate([*recorder.operations, None]):
        if done in moments:
            place = tmp_path / f"cut-{done}"
            place.mkdir()
            attrs.evolve(cut, seed=cut.seed + done).leave(device, place / "data")
            async with running_broker(settings(place / "data")) as broker:
                await check_state(broker)
                if with_end:
                    await check_end(broker)
            shutil.rmtree(place)
        if operation is not None:
            device.apply(operation)


async def test_relocation_input_has_misplaced_records_of_every_type(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the other tests would prove nothing."""
    moving = "tidelog.plugins.coordinator.log.relocation.Relocator.pairs"
    monkeypatch.setattr(moving, lambda self: ((index,) for index in range(misplacing.COUNT)))
    async with running_broker(settings(old)) as broker:
        await loaded(broker)
        kinds = {(topic, key[:2]) for topic, _, key in misplaced_keys(broker)}
        assert kinds == {
            (misplacing.TRANSACTIONS, b"\0\0"),
            *((misplacing.OFFSETS, kind.to_bytes(2, "big")) for kind in (1, 2, 3, 5, 6, 7, 8, 16)),
        }


async def test_everything_is_moved_once_and_logged(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with running_broker(settings(old)) as broker:
            await check_state(broker)
            ends = log_ends(broker)
    lines = [message for message in caplog.messages if "moved the state" in message]
    assert sorted(line.partition(" where ")[0] for line in lines) == [
        "moved the state of 5 name(s), 21 record(s), to the partitions of __consumer_offsets",
        "moved the state of 5 name(s), 5 record(s), to the partitions of __transaction_state",
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        async with running_broker(settings(old)) as broker:
            await check_state(broker)
            assert log_ends(broker) == ends
            await check_end(broker)
    assert [message for message in caplog.messages if "moved the state" in message] == []


async def test_relocator_run_moves_everything_after_the_clock_was_set_back(old: Path) -> None:
    async with running_broker(settings(old), clock=lambda: wall_clock_ms() - DAY_MS) as broker:
        await check_state(broker)
        await check_end(broker)


@pytest.mark.long
async def test_relocator_run_loses_nothing_when_killed_before_any_write(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(old)
    done_before_writes: set[int] = set()

    def note_before(method: Callable[..., Any]) -> Callable[..., Any]:
        def write(self: Partition, *arguments: Any, **options: Any) -> Any:
            recorder.catch_up()
            done_before_writes.add(len(recorder.operations))
            return method(self, *arguments, **options)

        return write

    with recorder.installed(), monkeypatch.context() as patch:
        for name in ("append_nowait", "append_marker"):
            patch.setattr(Partition, name, note_before(getattr(Partition, name)))
        async with running_broker(settings(old)) as broker:
            await check_state(broker)
    assert len(done_before_writes) > 15
    await check_starts_after(PROCESS_ENDS, done_before_writes, recorder, tmp_path)


@pytest.mark.parametrize(
    "fate",
    [
        DataFate.LOST,
        pytest.param(DataFate.TORN, marks=pytest.mark.long),
        pytest.param(DataFate.SCATTERED, marks=pytest.mark.long),
    ],
    ids=lambda fate: fate.name,
)
@pytest.mark.parametrize("flushed", [pytest.param(False, marks=pytest.mark.long), True])
async def test_relocator_run_loses_nothing_in_a_power_cut(
    old: Path, tmp_path: Path, fate: DataFate, flushed: bool
) -> None:
    flushing = FLUSHED if flushed else {}
    recorder = Recorder(old)
    with recorder.installed():
        async with running_broker({**settings(old), **flushing}) as broker:
            await loaded(broker)
            recorder.catch_up()
            count = len(recorder.operations)
    cuts = random.Random(SEED).sample(range(count), min(CUTS, count))
    cut = PowerCut(fate, NameFate.SOME, seed=SEED)
    # Of what was not flushed, a marker may be lost while the record of the completed transaction is there.
    await check_starts_after(cut, cuts, recorder, tmp_path, with_end=flushed)


async def test_relocator_keeps_an_empty_partition_inactive_until_its_counterpart_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, gate = tmp_path / "data", threading.Event()
    with misplacing.earlier_version(monkeypatch):
        async with running_broker(settings(data)) as broker:
            await broker.topics.ensure(TOPIC)
            await broker.coordinator.prepare_groups()
            await broker.coordinator.prepare_transactions()
            broker.coordinator.offsets.commit(OffsetCommit(COMMITTED, [OffsetToCommit(TOPIC, 0, 5)]))

    def wait_and_decode(data: memoryview, from_offset: int) -> tuple[list[LoadedBatch], int]:
        gate.wait()
        return decode_batches(data, from_offset)

    monkeypatch.setattr(loading, "decode_batches", wait_and_decode)
    async with running_broker(settings(data)) as broker:
        try:
            home = broker.topics.get(misplacing.OFFSETS).partitions[partition_for(COMMITTED, COUNT)]
            assert home.log_end_offset == 0
            with pytest.raises(CoordinatorLoadInProgress):
                broker.coordinator.offsets.fetch(OffsetFetch(COMMITTED, None))
        finally:
            gate.set()
        await loaded(broker)
        assert committed_offsets(broker)[COMMITTED] == {0: 5}
