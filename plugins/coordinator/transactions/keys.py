"""Configuration keys of transactions, with Kafka's names and defaults."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config import ConfigKey, boolean, integer

TRANSACTION_MAX_TIMEOUT_MS: Final = ConfigKey(
    name="transaction.max.timeout.ms",
    type=integer(1),
    default=900_000,
    documentation="The longest transaction timeout that a producer may ask for, in milliseconds.",
)
TRANSACTIONAL_ID_EXPIRATION_MS: Final = ConfigKey(
    name="transactional.id.expiration.ms",
    type=integer(1),
    default=604_800_000,
    documentation="How long the state of a transactional id that is not used is kept, in milliseconds.",
)
ABORT_TIMED_OUT_INTERVAL_MS: Final = ConfigKey(
    name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    type=integer(1),
    default=10_000,
    documentation="The interval of the check for transactions that have timed out, in milliseconds.",
)
REMOVE_EXPIRED_INTERVAL_MS: Final = ConfigKey(
    name="transaction.remove.expired.transaction.cleanup.interval.ms",
    type=integer(1),
    default=3_600_000,
    documentation="The interval of the check for expired transactional ids, in milliseconds.",
)
PARTITION_VERIFICATION_ENABLE: Final = ConfigKey(
    name="transaction.partition.verification.enable",
    type=boolean(),
    default=True,
    documentation="Whether a transactional batch is refused unless its partition was added to the "
    "transaction.",
)
