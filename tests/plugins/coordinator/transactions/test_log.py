"""Transactions over the runtime: what is written, when it is answered, and what is loaded."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.plugins.coordinator.transactions.coordinator import (
    PLACES,
    TIMEOUT_MS,
    CrashingCoordinator,
)
from tidelog.kernel.errors import (
    NotCoordinator,
)
from tidelog.kernel.seams.coordination.transactions import (
    ProducerIdentity,
    TransactionFilter,
    TransactionState,
)
from tidelog.kernel.seams.partition import AppendResult
from tidelog.plugins.coordinator.runtime import StateRecord

HERE = PLACES[0]


async def test_init_producer_id_answers_when_its_record_is_on_disk(
    coordinator: CrashingCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk = trio.Event()
    answered: list[ProducerIdentity] = []

    async def committed(partition: int, result: AppendResult) -> None:
        await on_disk.wait()

    async def begin() -> None:
        answered.append(await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS))

    coordinator.log.flush_due = True
    monkeypatch.setattr(coordinator.log, "committed", committed)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin)
        await wait_all_tasks_blocked()
        assert coordinator.log.batches
        assert not answered
        on_disk.set()
    assert answered


async def test_load_restores_an_open_transaction_after_a_crash(coordinator: CrashingCoordinator) -> None:
    producer = await coordinator.begin()
    await coordinator.recover()
    coordinator.append(HERE, producer, 1, b"3")
    await coordinator.transactions.end("orders", producer, commit=True, version=2)
    assert coordinator.committed() == [[b"1", b"3"], [b"2"], []]


async def test_end_txn_changes_nothing_when_the_log_refuses_it(coordinator: CrashingCoordinator) -> None:
    producer = await coordinator.begin()
    coordinator.log.close()
    with pytest.raises(NotCoordinator):
        await coordinator.transactions.end("orders", producer, commit=True, version=2)
    coordinator.transactions.open()
    assert coordinator.transactions.describe("orders").state is TransactionState.ONGOING
    assert coordinator.committed() == [[], [], []]


async def test_load_skips_and_logs_malformed_records(
    coordinator: CrashingCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await coordinator.begin()
    broken = [
        StateRecord(b"\0\0\0\x06broken", b"\0\x01"),
        StateRecord(b"\0", b""),
        StateRecord(b"\0\x09", b""),
    ]
    coordinator.log.batches.append(broken)
    await coordinator.recover()
    assert [found.transactional_id for found in await coordinator.transactions.list(TransactionFilter())] == [
        "orders"
    ]
    assert caplog.text.count("cannot be read") == 2, "a key that is newer than this broker is no fault"
    await coordinator.transactions.end("orders", producer, commit=True, version=2)
    assert coordinator.committed() == [[b"1"], [b"2"], []]
