"""`TransactionTimeouts`: overdue transactions are aborted, unused ids removed."""

from __future__ import annotations

import pytest

from tests.plugins.coordinator.transactions.coordinator import (
    EXPIRATION_MS,
    PLACES,
    TIMEOUT_MS,
    CrashingCoordinator,
)
from tidelog.kernel.errors import (
    ProducerFenced,
    TransactionalIdNotFound,
)
from tidelog.kernel.seams.coordination.transactions import (
    TransactionFilter,
    TransactionState,
)

HERE = PLACES[0]


async def test_abort_overdue_fences_the_producer(coordinator: CrashingCoordinator) -> None:
    producer = await coordinator.begin()
    coordinator.clock.advance(TIMEOUT_MS)
    await coordinator.transactions.timeouts.abort_overdue()
    assert coordinator.transactions.describe("orders").state is TransactionState.ONGOING
    coordinator.clock.advance(1)
    await coordinator.transactions.timeouts.abort_overdue()
    assert coordinator.transactions.describe("orders").state is TransactionState.COMPLETE_ABORT
    with pytest.raises(ProducerFenced):
        await coordinator.transactions.add_partitions("orders", producer, (HERE,))


async def test_remove_expired_removes_unused_ids(coordinator: CrashingCoordinator) -> None:
    await coordinator.transactions.init_producer_id("unused", TIMEOUT_MS)
    await coordinator.begin()
    coordinator.clock.advance(EXPIRATION_MS - 1)
    await coordinator.transactions.timeouts.remove_expired()
    assert len(await coordinator.transactions.list(TransactionFilter())) == 2
    coordinator.clock.advance(1)
    await coordinator.transactions.timeouts.remove_expired()
    await coordinator.recover()
    assert [found.transactional_id for found in await coordinator.transactions.list(TransactionFilter())] == [
        "orders"
    ]
    with pytest.raises(TransactionalIdNotFound):
        coordinator.transactions.describe("unused")
