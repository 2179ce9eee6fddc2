"""The driver: what is written when, what is done again, and what a failure leaves."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.plugins.coordinator.transactions.scene import (
    EXPIRATION_MS,
    PLACES,
    TIMEOUT_MS,
    TOPIC,
    Crash,
    Scene,
)
from tidelog.kernel.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    NotCoordinator,
    ProducerFenced,
    StorageError,
    TransactionalIdNotFound,
)
from tidelog.kernel.seams.coordination.transactions import (
    ProducerIdentity,
    TransactionFilter,
    TransactionState,
)
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.transactions.states import AT_REST, PREPARE_COMMIT

HERE, THERE, _ = PLACES
LAST_EPOCH = 32766


@pytest.fixture
def scene() -> Scene:
    """A coordinator that knows nothing yet."""
    return Scene()


async def begun(scene: Scene, name: str = "orders", version: int = 2) -> ProducerIdentity:
    """A producer with one record in each of two partitions."""
    producer = await scene.transactions.init_producer_id(name, TIMEOUT_MS)
    await scene.transactions.add_partitions(name, producer, (HERE, THERE), version=version)
    scene.append(HERE, producer, 0, b"1")
    scene.append(THERE, producer, 0, b"2")
    return producer


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_ends_in_all_partitions(scene: Scene, commit: bool, version: int) -> None:
    producer = await begun(scene, version=version)
    assert scene.committed() == [[], [], []]
    following = await scene.transactions.end("orders", producer, commit=commit, version=version)
    assert following == (producer.producer_id, producer.epoch + (version == 2))
    assert scene.committed() == ([[b"1"], [b"2"], []] if commit else [[], [], []])
    assert [p.last_stable_offset == p.log_end_offset for p in scene.partitions] == [True] * 3


async def test_nobody_is_answered_before_it_is_on_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk = trio.Event()
    answered: list[ProducerIdentity] = []

    async def committed(partition: int, result: AppendResult) -> None:
        await on_disk.wait()

    async def begin() -> None:
        answered.append(await scene.transactions.init_producer_id("orders", TIMEOUT_MS))

    monkeypatch.setattr(scene.log, "committed", committed)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin)
        await wait_all_tasks_blocked()
        assert scene.log.batches
        assert not answered
        on_disk.set()
    assert answered


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("step", range(8))
async def test_a_crash_at_every_write_of_an_end(commit: bool, step: int) -> None:
    scene = Scene()
    producer = await begun(scene)
    scene.writes.crash_at = scene.writes.steps + step
    with pytest.raises((Crash, BaseExceptionGroup)):
        await scene.transactions.end("orders", producer, commit=commit, version=2)
    await scene.recover()
    decided = step > 0
    state = scene.transactions.describe("orders").state
    assert state is TransactionState.ONGOING if not decided else state in AT_REST
    assert scene.committed() == ([[b"1"], [b"2"], []] if decided and commit else [[], [], []])
    # The producer asks again, as it does when it got no answer.
    await scene.transactions.end("orders", producer, commit=commit, version=2)
    assert scene.committed() == ([[b"1"], [b"2"], []] if commit else [[], [], []])
    with pytest.raises(InvalidTransactionState):
        await scene.transactions.end("orders", producer, commit=not commit, version=2)


@pytest.mark.parametrize("step", range(10))
async def test_a_crash_at_every_write_of_a_fence(step: int) -> None:
    scene = Scene()
    first = await begun(scene)
    scene.writes.crash_at = scene.writes.steps + step
    with pytest.raises((Crash, BaseExceptionGroup)):
        await scene.transactions.init_producer_id("orders", TIMEOUT_MS)
    await scene.recover()
    second = await scene.transactions.init_producer_id("orders", TIMEOUT_MS)
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    with pytest.raises(ProducerFenced):
        await scene.transactions.end("orders", first, commit=True, version=0)
    with pytest.raises(InvalidTransactionState):
        scene.append(HERE, first, 1, b"3")
    assert scene.committed() == [[], [], []]


async def test_an_open_transaction_outlives_a_crash(scene: Scene) -> None:
    producer = await begun(scene)
    await scene.recover()
    scene.append(HERE, producer, 1, b"3")
    await scene.transactions.end("orders", producer, commit=True, version=2)
    assert scene.committed() == [[b"1", b"3"], [b"2"], []]


async def test_what_is_open_for_too_long_is_aborted(scene: Scene) -> None:
    producer = await begun(scene)
    scene.clock.advance(TIMEOUT_MS)
    await scene.transactions.timeouts.abort_overdue()
    assert scene.transactions.describe("orders").state is TransactionState.ONGOING
    scene.clock.advance(1)
    await scene.transactions.timeouts.abort_overdue()
    assert scene.transactions.describe("orders").state is TransactionState.COMPLETE_ABORT
    with pytest.raises(ProducerFenced):
        await scene.transactions.add_partitions("orders", producer, (HERE,))


async def test_includes_partition_is_true_for_partitions_of_the_transaction_only(scene: Scene) -> None:
    producer = await begun(scene)
    includes_partition = scene.transactions.includes_partition
    assert includes_partition(*producer, HERE)
    assert not includes_partition(*producer, PLACES[2])
    assert not includes_partition(producer.producer_id, producer.epoch + 1, HERE)
    assert not includes_partition(producer.producer_id + 1, producer.epoch, HERE)
    following = await scene.transactions.end("orders", producer, commit=True, version=2)
    assert not includes_partition(*producer, HERE)
    assert not includes_partition(*following, HERE)


async def test_an_instance_that_was_shut_out_cannot_write_where_the_new_one_did_not_yet(scene: Scene) -> None:
    zombie = await begun(scene)
    newer = await scene.transactions.init_producer_id("orders", TIMEOUT_MS)
    await scene.transactions.add_partitions("orders", newer, (PLACES[2],), version=2)
    with pytest.raises(InvalidTransactionState):
        scene.append(PLACES[2], zombie, 0, b"3")


async def test_epochs_that_run_out(scene: Scene) -> None:
    producer = await scene.transactions.init_producer_id("orders", TIMEOUT_MS)
    identity = producer
    for _ in range(LAST_EPOCH):
        identity = await scene.transactions.init_producer_id("orders", TIMEOUT_MS)
    assert identity == (producer.producer_id, LAST_EPOCH)
    await scene.transactions.add_partitions("orders", identity, (HERE,), version=2)
    scene.append(HERE, identity, 0, b"1")
    following = await scene.transactions.end("orders", identity, commit=True, version=2)
    assert following.epoch == 0
    assert following.producer_id != producer.producer_id
    await scene.recover()
    await scene.transactions.add_partitions("orders", following, (HERE,), version=2)
    scene.append(HERE, following, 0, b"2")
    await scene.transactions.end("orders", following, commit=True, version=2)
    assert scene.committed()[0] == [b"1", b"2"]


async def test_a_partition_that_refuses_its_marker_gets_it_later(scene: Scene) -> None:
    producer = await begun(scene)
    scene.partitions[THERE.partition].take_offline(StorageError("the disk is gone"))
    await scene.transactions.end("orders", producer, commit=True, version=2)
    assert scene.transactions.describe("orders").state is PREPARE_COMMIT
    end_offset = scene.partitions[HERE.partition].log_end_offset
    with pytest.raises(ConcurrentTransactions):
        await scene.transactions.add_partitions("orders", ProducerIdentity(*producer), (HERE,))
    await scene.transactions.complete()
    assert scene.partitions[HERE.partition].log_end_offset == end_offset, "its marker is not repeated"
    scene.partitions[THERE.partition].offline = None
    await scene.transactions.complete()
    assert scene.transactions.describe("orders").state is TransactionState.COMPLETE_COMMIT
    assert scene.committed() == [[b"1"], [b"2"], []]


async def test_a_partition_that_is_gone_keeps_nothing_back(scene: Scene) -> None:
    producer = await scene.transactions.init_producer_id("orders", TIMEOUT_MS)
    gone = TopicPartition("gone", 0), TopicPartition(TOPIC, 99)
    await scene.transactions.add_partitions("orders", producer, gone)
    await scene.transactions.end("orders", producer, commit=True)
    assert scene.transactions.describe("orders").state is TransactionState.COMPLETE_COMMIT


async def test_what_the_log_refuses_has_not_happened(scene: Scene) -> None:
    producer = await begun(scene)
    scene.log.close()
    with pytest.raises(NotCoordinator):
        await scene.transactions.end("orders", producer, commit=True, version=2)
    scene.log.open(scene.transactions.state)
    assert scene.transactions.describe("orders").state is TransactionState.ONGOING
    assert scene.committed() == [[], [], []]


async def test_ids_that_nobody_uses_are_forgotten(scene: Scene) -> None:
    await scene.transactions.init_producer_id("unused", TIMEOUT_MS)
    await begun(scene)
    scene.clock.advance(EXPIRATION_MS - 1)
    await scene.transactions.timeouts.remove_expired()
    assert len(await scene.transactions.list(TransactionFilter())) == 2
    scene.clock.advance(1)
    await scene.transactions.timeouts.remove_expired()
    await scene.recover()
    assert [found.transactional_id for found in await scene.transactions.list(TransactionFilter())] == [
        "orders"
    ]
    with pytest.raises(TransactionalIdNotFound):
        scene.transactions.describe("unused")


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
async def test_timeouts_out_of_range(scene: Scene, timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeout, match=r"transaction\.max\.timeout\.ms"):
        await scene.transactions.init_producer_id("orders", timeout_ms)


async def test_ids_that_are_none(scene: Scene) -> None:
    nobody = ProducerIdentity(1, 0)
    with pytest.raises(InvalidRequest):
        await scene.transactions.init_producer_id("", TIMEOUT_MS)
    with pytest.raises(InvalidRequest):
        await scene.transactions.add_partitions("", nobody, (HERE,))
    with pytest.raises(InvalidProducerIdMapping):
        await scene.transactions.add_partitions("unknown", nobody, (HERE,))
    with pytest.raises(InvalidProducerIdMapping):
        await scene.transactions.end("unknown", nobody, commit=True)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (TransactionFilter(), ["idle", "long", "short"]),
        (TransactionFilter(states=[TransactionState.ONGOING]), ["long", "short"]),
        (TransactionFilter(states=[]), []),
        (TransactionFilter(producer_ids={1001}), ["idle"]),
        (TransactionFilter(states=[TransactionState.ONGOING], open_longer_than_ms=1000), ["long"]),
        (TransactionFilter(pattern="(l|sh).*"), ["long", "short"]),
        (TransactionFilter(pattern="sh"), []),
    ],
)
async def test_listing(scene: Scene, wanted: TransactionFilter, found: list[str]) -> None:
    await scene.transactions.init_producer_id("idle", TIMEOUT_MS)
    for name in ("long", "short"):
        producer = await scene.transactions.init_producer_id(name, TIMEOUT_MS)
        await scene.transactions.add_partitions(name, producer, (HERE,))
        scene.clock.advance(800)
    listed = await scene.transactions.list(wanted)
    assert sorted(description.transactional_id for description in listed) == found


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "x" * 5000])
async def test_patterns_that_are_none(scene: Scene, pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        await scene.transactions.list(TransactionFilter(pattern=pattern))


async def test_what_is_malformed_in_the_log_is_left_aside(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await begun(scene)
    broken = [
        StateRecord(b"\0\0\0\x06broken", b"\0\x01"),
        StateRecord(b"\0", b""),
        StateRecord(b"\0\x09", b""),
    ]
    scene.log.batches.append(broken)
    await scene.recover()
    assert [found.transactional_id for found in await scene.transactions.list(TransactionFilter())] == [
        "orders"
    ]
    assert caplog.text.count("cannot be read") == 2, "a key that is newer than this broker is no fault"
    await scene.transactions.end("orders", producer, commit=True, version=2)
    assert scene.committed() == [[b"1"], [b"2"], []]
