"""Context of transactions: the broker's clock, producer ids, hashing, epochs and settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.coordinator.keys import (
    PARTITION_VERIFICATION_ENABLE,
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTION_TWO_PHASE_COMMIT_ENABLE,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from tidelog.plugins.coordinator.runtime.topic_log import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext

FIRST_EPOCH: Final = 0


@attrs.frozen
class TransactionContext:
    """Context of transactions; times in milliseconds.

    Attributes:
        allocate: returns a producer id that was never used
        partition_for, partition_for_group: the partition with the state of a transactional id or a group
        coordinator_epoch: the leader epoch of a partition of the transaction log
        max_timeout_ms: `transaction.max.timeout.ms`
        id_expiration_ms: `transactional.id.expiration.ms`
        verifies_partitions: `transaction.partition.verification.enable`
        permits_two_phase_commit: `transaction.two.phase.commit.enable`
    """

    clock: Clock
    allocate: Callable[[], Awaitable[int]]
    partition_for: Callable[[str], int]
    partition_for_group: Callable[[str], int]
    coordinator_epoch: Callable[[int], int]
    max_timeout_ms: int
    id_expiration_ms: int
    verifies_partitions: Callable[[], bool] = lambda: True
    permits_two_phase_commit: bool = False

    @classmethod
    def of(
        cls,
        broker: CoordinatorContext,
        partition_for: Callable[[str], int],
        partition_for_group: Callable[[str], int],
    ) -> TransactionContext:
        """Return the context of the transactions of a broker, which may not be open yet."""
        config = broker.config
        return cls(
            clock=broker.clock,
            allocate=broker.allocate_producer_id,
            partition_for=partition_for,
            partition_for_group=partition_for_group,
            coordinator_epoch=lambda partition: _leader_epoch(broker, partition),
            max_timeout_ms=config[TRANSACTION_MAX_TIMEOUT_MS],
            id_expiration_ms=config[TRANSACTIONAL_ID_EXPIRATION_MS],
            verifies_partitions=lambda: config[PARTITION_VERIFICATION_ENABLE],
            permits_two_phase_commit=config[TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
        )


def _leader_epoch(broker: CoordinatorContext, partition: int) -> int:
    """Return the coordinator's epoch, which is its log's as in Kafka; without a topic it stays the same."""
    topic = broker.topics.find(TRANSACTION_TOPIC)
    if topic is None or partition >= len(topic.partitions):
        return FIRST_EPOCH
    return topic.partitions[partition].leader_epoch
