"""What transactions need of the broker besides the runtime: producer ids, epochs, configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.runtime.topic_log import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext

FIRST_EPOCH: Final = 0


@attrs.frozen
class TransactionSettings:
    """Producer ids, epochs and configuration of transactions; times in milliseconds.

    Attributes:
        allocate: returns a producer id that was never used
        coordinator_epoch: the leader epoch of a partition of the transaction log
        max_timeout_ms: `transaction.max.timeout.ms`
        id_expiration_ms: `transactional.id.expiration.ms`
        verifies_partitions: `transaction.partition.verification.enable`
        permits_two_phase_commit: `transaction.two.phase.commit.enable`
    """

    allocate: Callable[[], Awaitable[int]]
    coordinator_epoch: Callable[[int], int]
    max_timeout_ms: int
    id_expiration_ms: int
    verifies_partitions: Callable[[], bool] = lambda: True
    permits_two_phase_commit: bool = False


def transaction_settings(broker: CoordinatorContext) -> TransactionSettings:
    """Return the settings of the transactions of a broker, which may not be open yet."""
    config = broker.config
    return TransactionSettings(
        allocate=broker.allocate_producer_id,
        coordinator_epoch=lambda partition: _leader_epoch(broker, partition),
        max_timeout_ms=config[keys.TRANSACTION_MAX_TIMEOUT_MS],
        id_expiration_ms=config[keys.TRANSACTIONAL_ID_EXPIRATION_MS],
        verifies_partitions=lambda: config[keys.PARTITION_VERIFICATION_ENABLE],
        permits_two_phase_commit=config[keys.TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
    )


def _leader_epoch(broker: CoordinatorContext, partition: int) -> int:
    """Return the coordinator's epoch, which is its log's as in Kafka; without a topic it stays the same."""
    topic = broker.topics.find(TRANSACTION_TOPIC)
    if topic is None or partition >= len(topic.partitions):
        return FIRST_EPOCH
    return topic.partitions[partition].leader_epoch
