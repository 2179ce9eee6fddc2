"""Transactions as records of `__transaction_state`.

    key    type int16 0, transactional id string
    value  version int16 0 or 1, then `TransactionLogValue`; without a value the transactional id is removed

Source: Kafka's `TransactionLogKey` and `TransactionLogValue`; KIP-915 (version 1), KIP-890 (tagged fields).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs

from tidelog.kernel.seams.coordination.transactions import TransactionState
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.runtime.durable_change import DurableChange, VersionedValue
from tidelog.plugins.coordinator.transactions.transaction import Transaction
from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
)
from tidelog.plugins.schema.types import INT32

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.transactions.table import PartitionTransactions

VALUE_VERSION: Final = 1
STATUS_AT: Final = 16
"""Position of the byte of the state in a value of either version."""


@struct(VersionSpan(0, 0))
class TransactionLogKey:
    """A transactional id."""

    transactional_id: str = string()


@struct()
class PartitionsSchema:
    """Partitions of one topic."""

    topic: str = string()
    partition_ids: list[int] = array(INT32)


@struct(VersionSpan(0, 1, flexible=1))
class TransactionLogValue:
    """A transaction; `transaction_partitions` is null in state Empty."""

    producer_id: int = int64()
    previous_producer_id: int = int64(versions="1+", tag=0, default=-1, ignorable=True)
    next_producer_id: int = int64(versions="1+", tag=1, default=-1, ignorable=True)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(versions="1+", tag=3, default=-1, ignorable=True)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(versions="1+", tag=2, default=0, ignorable=True)


@attrs.frozen
class TransactionChange(DurableChange["PartitionTransactions"]):
    """The new transaction of a transactional id, or the id's removal (`transaction` is None)."""

    key_type = 0
    key_schema = TransactionLogKey
    value_schema = TransactionLogValue

    transactional_id: str
    transaction: Transaction | None

    @classmethod
    def to(cls, transaction: Transaction) -> Self:
        """Return the change that makes `transaction` the one of its id."""
        return cls(transaction.transactional_id, transaction)

    def key(self) -> TransactionLogKey:
        """Return the transactional id."""
        return TransactionLogKey(transactional_id=self.transactional_id)

    def value(self) -> VersionedValue | None:
        """Return the transaction in version 1."""
        return None if self.transaction is None else VersionedValue(VALUE_VERSION, _message(self.transaction))

    def apply(self, state: PartitionTransactions) -> None:
        """Set the transaction, or remove its id."""
        if self.transaction is None:
            state.remove(self.transactional_id)
        else:
            state.put(self.transaction)

    @classmethod
    def from_messages(cls, key: TransactionLogKey, value: TransactionLogValue | None) -> Self:
        """Return the change of the messages of a record.

        Raises:
            ValueError: the state is none that exists.
        """
        if value is None:
            return cls(key.transactional_id, None)
        return cls.to(
            Transaction(
                transactional_id=key.transactional_id,
                producer_id=value.producer_id,
                producer_epoch=value.producer_epoch,
                timeout_ms=value.transaction_timeout_ms,
                state=TransactionState(value.transaction_status),
                partitions=frozenset(
                    TopicPartition(topic.topic, partition)
                    for topic in value.transaction_partitions or ()
                    for partition in topic.partition_ids
                ),
                start_ms=value.transaction_start_timestamp_ms,
                last_update_ms=value.transaction_last_update_timestamp_ms,
                previous_producer_id=value.previous_producer_id,
                next_producer_id=value.next_producer_id,
                client_version=value.client_transaction_version,
            )
        )


def _message(transaction: Transaction) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted((item.topic, item.partition) for item in transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
