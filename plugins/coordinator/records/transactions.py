"""What `__transaction_state` holds: a transactional id → what is known of its transaction.

    key    version int16 0, transactionalId string
    value  version int16 0 or 1, then the message below; no value: the id is forgotten

Source: Kafka's `TransactionLogKey` and `TransactionLogValue`; version 1 came with KIP-915, its tagged
fields with KIP-890.
"""

from __future__ import annotations

import struct as binary
from typing import Final

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.coordination.transactions import TransactionState
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.transactions.transaction import Transaction
from tidelog.plugins.protocol_kafka.codecs.compiled import decode, decoder, encode
from tidelog.plugins.protocol_kafka.codecs.declare import (
    VersionSpan,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
)
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError
from tidelog.plugins.protocol_kafka.codecs.types import INT32

KEY_VERSION: Final = 0
NEWEST_VALUE_VERSION: Final = 1
STATUS_AT: Final = 16
"""Where a value of either version has the byte of its state."""

_VERSION: Final = binary.Struct(">h")


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


def encode_key(transactional_id: str) -> bytes:
    """A record's key."""
    key = TransactionLogKey(transactional_id=transactional_id)
    return _VERSION.pack(KEY_VERSION) + encode(key, KEY_VERSION)


def encode_value(transaction: Transaction, version: int = NEWEST_VALUE_VERSION) -> bytes:
    """A record's value; versions below 1 leave out what they have no field for."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted((item.topic, item.partition) for item in transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    value = TransactionLogValue(
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
    return _VERSION.pack(version) + encode(value, version)


def decode_key(key: bytes) -> str | None:
    """The transactional id of a key, None for a kind of key that this broker does not know.

    Raises:
        CorruptBatch: it is malformed.
    """
    if len(key) < _VERSION.size:
        raise CorruptBatch(f"a key of the transaction log has {len(key)} byte(s)")
    if _VERSION.unpack_from(key)[0] != KEY_VERSION:
        return None
    try:
        return decode(TransactionLogKey, KEY_VERSION, key[_VERSION.size :]).transactional_id
    except CodecError as error:
        raise CorruptBatch(f"a key of the transaction log is malformed: {error}") from None


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    """The transaction in a value.

    Raises:
        CorruptBatch: it is malformed, newer than this broker, or in a state that does not exist.
    """
    if len(value) < _VERSION.size:
        raise CorruptBatch(f"the transaction log has {len(value)} byte(s) for {transactional_id!r}")
    (version,) = _VERSION.unpack_from(value)
    if not 0 <= version <= NEWEST_VALUE_VERSION:
        raise CorruptBatch(
            f"the transaction log's entry for {transactional_id!r} has version {version}; "
            f"this broker knows versions up to {NEWEST_VALUE_VERSION}"
        )
    try:
        found, _ = decoder(TransactionLogValue, version)(value, _VERSION.size)
        state = TransactionState(found.transaction_status)
    except (CodecError, ValueError) as error:
        raise CorruptBatch(f"the transaction log's entry for {transactional_id!r}: {error}") from None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in found.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=found.transaction_start_timestamp_ms,
        last_update_ms=found.transaction_last_update_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        client_version=found.client_transaction_version,
    )
