"""The power fails while transactions end: none stays open where records are flushed before they count."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from tests.deadlines import until
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import BrokerError, CoordinatorLoadInProgress
from tidelog.kernel.seams.coordination.offsets import (
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.seams.coordination.transactions import EndOfTransaction, TransactionState
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.runtime import LoadedBatch, loading
from tidelog.plugins.coordinator.runtime.batches import decode_batches
from tidelog.plugins.coordinator.runtime.topic_log import OFFSETS_TOPIC
from tidelog.plugins.coordinator.transactions.markers import Markers
from tidelog.plugins.coordinator.transactions.service import Transactions
from tidelog.plugins.coordinator.transactions.states import PREPARED
from tidelog.plugins.storage_file.testing import DataFate, NameFate, PowerCut, Recorder

TOPIC, GROUP = "flights", "group"
GROUP_KEY = b"\0\5group"
"""The group in a key of `__consumer_offsets`: its length, then its name."""
OFFSET = 70
LONG_MS = 900_000
OUTCOMES = {"committing": True, "aborting": False}
"""Whether the transaction of each transactional id is committed."""
CUTS = 6
SEED = 5


def settings(data: Path) -> Mapping[str, object]:
    """Return the settings of a broker on that directory."""
    return {
        "storage": "file",
        "log.dirs": str(data),
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "num.partitions": len(OUTCOMES),
        "log.flush.interval.messages": 1,
    }


async def begin(broker: Broker, name: str, index: int) -> None:
    """Begin a transaction with a record in one partition and an offset of a group; nothing else is in it."""
    transactions = broker.coordinator.transactions
    producer = await transactions.init_producer_id(name, LONG_MS)
    await transactions.add_partitions(name, producer, [TopicPartition(TOPIC, index)], version=2)
    await transactions.add_offsets(name, producer, GROUP, version=2)
    batch = make_batch(
        [name.encode()],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    partition = broker.topics.get(TOPIC).partitions[index]
    await partition.log.wait_flushed(partition.log.append_nowait(batch, in_transaction=True).last_offset)
    offsets = OffsetCommit(GROUP, [OffsetToCommit(TOPIC, index, OFFSET)])
    broker.coordinator.offsets.commit_pending(offsets, *producer)
    await broker.topics.get(OFFSETS_TOPIC).partitions[0].log.flush()


async def fill(data: Path) -> None:
    """Open a transaction of each transactional id."""
    async with running_broker(settings(data)) as broker:
        await broker.topics.ensure(TOPIC)
        await broker.coordinator.prepare_groups()
        await broker.coordinator.prepare_transactions()
        for index, name in enumerate(OUTCOMES):
            await begin(broker, name, index)


async def end(broker: Broker, name: str) -> None:
    """End the transaction of a transactional id, unless that is decided already."""
    transactions = broker.coordinator.transactions
    described = transactions.describe(name)
    if described.state is TransactionState.ONGOING:
        await transactions.end(name, described.producer, commit=OUTCOMES[name], version=2)


async def wait_loaded(broker: Broker) -> None:
    """Wait until the transactions are loaded."""

    def is_loaded() -> bool:
        with suppress(CoordinatorLoadInProgress):
            broker.coordinator.transactions.describe("committing")
            return True
        return False

    await until(is_loaded, "the load of the transactions")


async def wait_completed(broker: Broker) -> None:
    """Wait until everything is loaded, and transactions that are decided have ended."""
    await wait_loaded(broker)

    def is_completed() -> bool:
        with suppress(CoordinatorLoadInProgress):
            broker.coordinator.offsets.fetch(OffsetFetch(GROUP, None))
            states = {broker.coordinator.transactions.describe(name).state for name in OUTCOMES}
            return states.isdisjoint(PREPARED)
        return False

    await until(is_completed, "the end of the transactions")


async def write_none(
    markers: Markers, end: EndOfTransaction, partitions: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Write no marker; the signature is that of `Markers.write`."""
    return frozenset(partitions)


def open_partitions(broker: Broker) -> list[TopicPartition]:
    """Return the partitions that a transaction holds up consumers of."""
    logs = [each.log for name in (TOPIC, OFFSETS_TOPIC) for each in broker.topics.get(name).partitions]
    return [each.topic_partition for each in logs if each.last_stable_offset != each.log_end_offset]


async def until_open(broker: Broker, *partitions: TopicPartition) -> None:
    """Wait until transactions are open in just these partitions."""
    await until(lambda: open_partitions(broker) == list(partitions), f"transactions open in {partitions}")


def committed_offset(broker: Broker, index: int) -> int | None:
    """Return the position of a group that only reads stable offsets, None if it has none."""
    wanted = OffsetFetch(GROUP, {TOPIC: [index]}, require_stable=True)
    found = broker.coordinator.offsets.fetch(wanted)[TOPIC][index]
    if isinstance(found, BrokerError):
        raise found
    return None if found is None else found.offset


async def check_ends(data: Path) -> None:
    """Everything that was open has ended everywhere or can be ended, with one outcome."""
    async with running_broker(settings(data)) as broker:
        await wait_completed(broker)
        for index, (name, commit) in enumerate(OUTCOMES.items()):
            await end(broker, name)
            assert committed_offset(broker, index) == (OFFSET if commit else None)
        await until_open(broker)


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(1 << 30, marks=pytest.mark.long)])
async def test_end_txn_leaves_no_transaction_open_in_a_power_cut(tmp_path: Path, cuts: int) -> None:
    old = tmp_path / "old"
    await fill(old)
    recorder = Recorder(old)
    with recorder.installed():
        async with running_broker(settings(old)) as broker:
            await wait_completed(broker)
            recorder.catch_up()
            began = len(recorder.operations)
            for name in OUTCOMES:
                await end(broker, name)
            recorder.catch_up()
            ended = len(recorder.operations)
    moments = range(began, ended + 1)
    chosen = random.Random(SEED).sample(moments, min(cuts, len(moments)))
    device, cut = recorder.start, PowerCut(DataFate.SCATTERED, NameFate.SOME)
    for done, operation in enumerate(recorder.operations[: ended + 1]):
        if done in chosen:
            place = tmp_path / f"cut-{done}"
            place.mkdir()
            attrs.evolve(cut, seed=SEED + done).leave(device, place / "data")
            await check_ends(place / "data")
        device.apply(operation)


async def test_complete_writes_markers_for_offsets_that_were_being_loaded_at_two_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process ends between a decision and its markers, the next one before it has read the offsets."""
    first, second = tmp_path / "first", tmp_path / "second"
    await fill(first)
    with monkeypatch.context() as patch:
        patch.setattr(Markers, "write", write_none)
        async with running_broker(settings(first)) as broker:
            await wait_completed(broker)
            await end(broker, "committing")
    gate = threading.Event()

    def wait_and_decode(data: memoryview, from_offset: int) -> tuple[list[LoadedBatch], int]:
        if GROUP_KEY in bytes(data):
            gate.wait()
        return decode_batches(data, from_offset)

    monkeypatch.setattr(loading, "decode_batches", wait_and_decode)
    async with running_broker(settings(first)) as broker:
        transactions = broker.coordinator.transactions
        try:
            await wait_loaded(broker)
            await until_open(broker, TopicPartition(TOPIC, 1), TopicPartition(OFFSETS_TOPIC, 0))
            assert isinstance(transactions, Transactions)
            await transactions.complete()
            assert transactions.describe("committing").state is TransactionState.PREPARE_COMMIT
            shutil.copytree(first, second)
        finally:
            gate.set()
        await wait_completed(broker)
        assert transactions.describe("committing").state is TransactionState.COMPLETE_COMMIT
    await check_ends(second)
