"""Verification of transactional batches: the transaction has to include their partition (KIP-890).

Clients of transaction version 2 add no partitions: version 12 of Produce and later ones do it instead.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import (
    BrokerError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTransactionState,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
)
from tidelog.kernel.records.batch import HEADER_BYTES, MAGIC_V2, NO_PRODUCER_ID, TRANSACTIONAL_BIT
from tidelog.kernel.seams.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    NO_TRANSACTION,
    ProducerIdentity,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.apis.common_fields import find_topic

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.context import RequestContext
    from tidelog.plugins.protocol_kafka.messages.produce import ProduceRequest

ABORTABLE_SINCE: Final = 11
IMPLICIT_SINCE: Final = 12
"""First version of Produce by clients whose transactions have an epoch each."""
TOPIC_IDS_SINCE: Final = 13

_MAGIC_AT: Final = 16
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_AT: Final = 21
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_AT: Final = 43


class TransactionVerification:
    """Verification of the batches of one request with a transactional id."""

    def __init__(self, context: RequestContext, transactional_id: str) -> None:
        self._context = context
        self._transactional_id = transactional_id
        self._version = context.api_version
        self._refused: dict[ProducerIdentity, BrokerError] = {}

    def missing(self, request: ProduceRequest) -> Mapping[ProducerIdentity, Sequence[TopicPartition]]:
        """Return the partitions that the request may add to the transaction: they are not part of it yet."""
        if self._version < IMPLICIT_SINCE:
            return {}
        missing: dict[ProducerIdentity, list[TopicPartition]] = {}
        try:
            includes_partition = self._context.broker.coordinator.transactions.includes_partition
            for data in request.topic_data:
                by_id = self._version >= TOPIC_IDS_SINCE
                topic = find_topic(self._context.broker.topics, data.name, data.topic_id, by_id=by_id)
                for batch in data.partition_data:
                    producer = _producer(batch.records)
                    partition = TopicPartition(topic.name, batch.index)
                    if (
                        producer is not None
                        and 0 <= batch.index < len(topic.partitions)
                        and not includes_partition(*producer, partition)
                    ):
                        missing.setdefault(producer, []).append(partition)
        except BrokerError:
            # `verify` raises it for each partition.
            return {}
        return missing

    async def add(self, missing: Mapping[ProducerIdentity, Sequence[TopicPartition]]) -> None:
        """Add these partitions to the transaction."""
        for producer, partitions in missing.items():
            try:
                await self._context.broker.coordinator.transactions.add_partitions(
                    self._transactional_id, producer, partitions, version=EPOCH_PER_TRANSACTION
                )
            except BrokerError as error:
                self._refused[producer] = error

    def verify(self, partition: TopicPartition, records: memoryview) -> int:
        """Return the version of the batch's transaction if that includes the partition, -1 without one.

        Raises:
            BrokerError: the batch is transactional, and the partition is not part of its transaction.
        """
        producer = _producer(records)
        if producer is None:
            return NO_TRANSACTION
        try:
            transactions = self._context.broker.coordinator.transactions
            if transactions.includes_partition(*producer, partition):
                return EPOCH_PER_TRANSACTION if self._version >= IMPLICIT_SINCE else FIRST_TRANSACTION_VERSION
            refused = self._refused.get(producer)
            if refused is None:
                verified = transactions.verify_partitions(self._transactional_id, producer, (partition,))
                refused = verified[partition]
        except BrokerError as error:
            refused = error
        raise self._known_to_client(refused or InvalidTransactionState(f"{partition} is in no transaction"))

    def _known_to_client(self, error: BrokerError) -> BrokerError:
        """Return the error that a client of this version can handle."""
        if isinstance(error, ProducerFenced):
            return InvalidProducerEpoch(str(error))
        if isinstance(error, TransactionAbortable) and self._version < ABORTABLE_SINCE:
            return InvalidTransactionState(str(error))
        # As in Apache Kafka: older clients may not retry after these, but do so after NOT_ENOUGH_REPLICAS,
        # and without asking for metadata first.
        passing = isinstance(error, (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator))
        if passing or (isinstance(error, ConcurrentTransactions) and self._version < IMPLICIT_SINCE):
            return NotEnoughReplicas(f"the transaction cannot be verified now: {error}")
        return error


def _producer(records: memoryview | None) -> ProducerIdentity | None:
    """Return the producer of a transactional batch; None for any other, or if it names no producer."""
    if records is None or len(records) < HEADER_BYTES or records[_MAGIC_AT] != MAGIC_V2:
        return None
    if not _ATTRIBUTES.unpack_from(records, _ATTRIBUTES_AT)[0] & TRANSACTIONAL_BIT:
        return None
    producer = ProducerIdentity(*_PRODUCER.unpack_from(records, _PRODUCER_AT))
    return None if producer.producer_id <= NO_PRODUCER_ID else producer
