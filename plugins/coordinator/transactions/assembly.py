"""The driver, put together for a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.plugins.coordinator.transactions.keys import (
    PARTITION_VERIFICATION_ENABLE,
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from tidelog.plugins.coordinator.transactions.markers import Markers, PendingOffsets
from tidelog.plugins.coordinator.transactions.service import (
    Surroundings,
    Transactions,
    TransactionSettings,
)

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext
    from tidelog.plugins.coordinator.log import StateLog

TRANSACTION_TOPIC = "__transaction_state"
FIRST_EPOCH = 0


def transactions_for(
    broker: CoordinatorContext,
    log: StateLog,
    group_log: StateLog,
    offsets: PendingOffsets,
    *,
    partition_for: Callable[[str], int],
    partition_for_group: Callable[[str], int],
) -> Transactions:
    """The transactions of a broker that is not open yet, kept in `log`.

    The `offsets` of groups, kept in `group_log`, take part in them.
    """
    config = broker.config

    return Transactions(
        log,
        Markers(broker.topics, group_log, offsets),
        Surroundings(
            clock=broker.clock,
            allocate=broker.allocate_producer_id,
            partition_for=partition_for,
            partition_for_group=partition_for_group,
            coordinator_epoch=lambda partition: _leader_epoch(broker, partition),
        ),
        TransactionSettings(
            max_timeout_ms=config[TRANSACTION_MAX_TIMEOUT_MS],
            id_expiration_ms=config[TRANSACTIONAL_ID_EXPIRATION_MS],
            verifies_partitions=config[PARTITION_VERIFICATION_ENABLE],
        ),
    )


def _leader_epoch(broker: CoordinatorContext, partition: int) -> int:
    """The epoch of a coordinator is that of its log, as in Kafka; one that is in no topic stays the same."""
    topic = broker.topics.find(TRANSACTION_TOPIC)
    if topic is None or partition >= len(topic.partitions):
        return FIRST_EPOCH
    return topic.partitions[partition].leader_epoch
