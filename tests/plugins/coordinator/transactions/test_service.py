"""`Transactions`: what requests change, answer and refuse."""

from __future__ import annotations

import pytest

from tests.plugins.coordinator.transactions.coordinator import (
    PLACES,
    TIMEOUT_MS,
    CrashingCoordinator,
)
from tidelog.kernel.errors import (
    InvalidProducerIdMapping,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
)
from tidelog.kernel.seams.coordination.transactions import (
    ProducerIdentity,
    TransactionFilter,
    TransactionState,
)

HERE = PLACES[0]
LAST_EPOCH = 32766


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_end_txn_writes_markers_to_all_partitions(
    coordinator: CrashingCoordinator, commit: bool, version: int
) -> None:
    producer = await coordinator.begin(version=version)
    assert coordinator.committed() == [[], [], []]
    following = await coordinator.transactions.end("orders", producer, commit=commit, version=version)
    assert following == (producer.producer_id, producer.epoch + (version == 2))
    assert coordinator.committed() == ([[b"1"], [b"2"], []] if commit else [[], [], []])
    assert [p.last_stable_offset == p.log_end_offset for p in coordinator.partitions] == [True] * 3


async def test_includes_partition_is_true_for_partitions_of_the_transaction_only(
    coordinator: CrashingCoordinator,
) -> None:
    producer = await coordinator.begin()
    includes_partition = coordinator.transactions.includes_partition
    assert includes_partition(*producer, HERE)
    assert not includes_partition(*producer, PLACES[2])
    assert not includes_partition(producer.producer_id, producer.epoch + 1, HERE)
    assert not includes_partition(producer.producer_id + 1, producer.epoch, HERE)
    following = await coordinator.transactions.end("orders", producer, commit=True, version=2)
    assert not includes_partition(*producer, HERE)
    assert not includes_partition(*following, HERE)


async def test_includes_partition_is_false_for_a_fenced_instance(coordinator: CrashingCoordinator) -> None:
    zombie = await coordinator.begin()
    newer = await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS)
    await coordinator.transactions.add_partitions("orders", newer, (PLACES[2],), version=2)
    with pytest.raises(InvalidTransactionState):
        coordinator.append(PLACES[2], zombie, 0, b"3")


async def test_end_txn_assigns_a_producer_id_when_epochs_run_out(coordinator: CrashingCoordinator) -> None:
    producer = await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS)
    identity = producer
    for _ in range(LAST_EPOCH):
        identity = await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS)
    assert identity == (producer.producer_id, LAST_EPOCH)
    await coordinator.transactions.add_partitions("orders", identity, (HERE,), version=2)
    coordinator.append(HERE, identity, 0, b"1")
    following = await coordinator.transactions.end("orders", identity, commit=True, version=2)
    assert following.epoch == 0
    assert following.producer_id != producer.producer_id
    await coordinator.recover()
    await coordinator.transactions.add_partitions("orders", following, (HERE,), version=2)
    coordinator.append(HERE, following, 0, b"2")
    await coordinator.transactions.end("orders", following, commit=True, version=2)
    assert coordinator.committed()[0] == [b"1", b"2"]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
async def test_init_producer_id_refuses_timeouts_out_of_range(
    coordinator: CrashingCoordinator, timeout_ms: int
) -> None:
    with pytest.raises(InvalidTransactionTimeout, match=r"transaction\.max\.timeout\.ms"):
        await coordinator.transactions.init_producer_id("orders", timeout_ms)


async def test_init_producer_id_add_partitions_and_end_txn_refuse_empty_and_unknown_ids(
    coordinator: CrashingCoordinator,
) -> None:
    nobody = ProducerIdentity(1, 0)
    with pytest.raises(InvalidRequest):
        await coordinator.transactions.init_producer_id("", TIMEOUT_MS)
    with pytest.raises(InvalidRequest):
        await coordinator.transactions.add_partitions("", nobody, (HERE,))
    with pytest.raises(InvalidProducerIdMapping):
        await coordinator.transactions.add_partitions("unknown", nobody, (HERE,))
    with pytest.raises(InvalidProducerIdMapping):
        await coordinator.transactions.end("unknown", nobody, commit=True)


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
async def test_list_filters(
    coordinator: CrashingCoordinator, wanted: TransactionFilter, found: list[str]
) -> None:
    await coordinator.transactions.init_producer_id("idle", TIMEOUT_MS)
    for name in ("long", "short"):
        producer = await coordinator.transactions.init_producer_id(name, TIMEOUT_MS)
        await coordinator.transactions.add_partitions(name, producer, (HERE,))
        coordinator.clock.advance(800)
    listed = await coordinator.transactions.list(wanted)
    assert sorted(description.transactional_id for description in listed) == found


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "x" * 5000])
async def test_list_refuses_an_invalid_pattern(coordinator: CrashingCoordinator, pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        await coordinator.transactions.list(TransactionFilter(pattern=pattern))
