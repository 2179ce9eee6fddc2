"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn.

All requests are in their last version before transaction version 2 (KIP-890): every broker since Apache Kafka
0.11 serves it. Partitions and groups are added before anything is written, and each is added once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import CoordinatorKey
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.coordinators import ask_coordinator
from tidelog.plugins.client.operations.group_offsets import GroupMetadata
from tidelog.plugins.client.producers import TransactionalProducer
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.plugins.protocol_kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.plugins.client.operations.group_offsets import GroupOffset
    from tidelog.plugins.client.steps import Session, Steps

DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""As `transaction.timeout.ms` of Kafka's producers."""

_ADD_PARTITIONS_VERSION: Final = 3
_TXN_OFFSET_COMMIT_VERSION: Final = 4
_END_TXN_VERSION: Final = 4


def init_transactions(
    session: Session, transactional_id: str, *, timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
) -> Steps[TransactionalProducer]:
    """Return a producer with this transactional id, and fence the one that had it before.

    An open transaction of that one is aborted first. The coordinator aborts a transaction that is open for
    longer than `timeout_ms`, and fences its producer.

    Raises:
        ErrorResponse: with INVALID_TRANSACTION_TIMEOUT, the timeout is above the broker's
            `transaction.max.timeout.ms`.
        ClientError: no coordinator answered.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer: InitProducerIdResponse = yield from ask_coordinator(
        session, CoordinatorKey.transaction(transactional_id), request, _error_of(transactional_id)
    )
    return TransactionalProducer(
        answer.producer_id, answer.producer_epoch, transactional_id=transactional_id, timeout_ms=timeout_ms
    )


def add_partitions(
    session: Session, producer: TransactionalProducer, partitions: Iterable[TopicPartition]
) -> Steps[None]:
    """Add partitions to the open transaction, unless they are part of it; `produce_batches` calls it.

    Raises:
        InvalidTransactionState: no transaction is open, or it has failed.
        ClientError: the coordinator did not add them; the transaction can only be aborted.
    """
    producer.check_open()
    missing = producer.missing_partitions(partitions)
    if not missing:
        return
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for partition in missing:
        by_topic[partition.topic].append(partition.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()
        ],
    )
    yield from _ask(session, producer, request, _add_partitions_error, _ADD_PARTITIONS_VERSION)
    producer.add_partitions(missing)


def send_offsets(
    session: Session,
    producer: TransactionalProducer,
    group: str | GroupMetadata,
    offsets: Mapping[TopicPartition, GroupOffset],
) -> Steps[None]:
    """Commit offsets of a group, given by its id or as a member of it, with the open transaction.

    Raises:
        InvalidTransactionState: no transaction is open, or it has failed.
        ClientError: an offset was not accepted; the transaction can only be aborted.
    """
    producer.check_open()
    member = GroupMetadata(group) if isinstance(group, str) else group
    ids = (producer.transactional_id, producer.producer_id, producer.producer_epoch)
    if not producer.has_group(member.group_id):
        added = AddOffsetsToTxnRequest(
            transactional_id=ids[0], producer_id=ids[1], producer_epoch=ids[2], group_id=member.group_id
        )
        yield from _ask(session, producer, added, _error_of(producer.transactional_id))
        producer.add_group(member.group_id)
    request = TxnOffsetCommitRequest(
        transactional_id=ids[0],
        group_id=member.group_id,
        producer_id=ids[1],
        producer_epoch=ids[2],
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=_offset_topics(offsets),
    )
    try:
        yield from ask_coordinator(
            session,
            CoordinatorKey.group(member.group_id),
            request,
            _offset_commit_error,
            at_most=_TXN_OFFSET_COMMIT_VERSION,
        )
    except ClientError as error:
        raise producer.fail(error) from error


def commit_transaction(session: Session, producer: TransactionalProducer) -> Steps[None]:
    """Commit the open transaction; after an error that is retriable it may be called again.

    Raises:
        InvalidTransactionState: no transaction is open, or it has failed.
        ProducerInDoubt: a batch of it may or may not have been appended.
        ProducerFenced: a newer producer has the transactional id; the transaction was aborted.
        ClientError: the coordinator did not answer; the transaction may or may not be committed.
    """
    producer.begin_commit()
    yield from _end(session, producer, committed=True)
    producer.ended()


def abort_transaction(session: Session, producer: TransactionalProducer) -> Steps[None]:
    """Abort the open transaction; after an error that is retriable it may be called again.

    If a batch failed or is in doubt, the producer continues with a new epoch (KIP-360).

    Raises:
        InvalidTransactionState: no transaction is open, or its commit is in doubt.
        ProducerFenced: a newer producer has the transactional id; the transaction was aborted.
        ClientError: the coordinator did not answer.
    """
    producer.begin_abort()
    try:
        yield from _end(session, producer, committed=False)
    except ErrorResponse as error:
        # Nothing was added to the transaction, so that the coordinator does not know it.
        if error.code is not ErrorCode.INVALID_TXN_STATE:
            raise
    if producer.needs_new_epoch:
        yield from _renew(session, producer)
    producer.ended()


def _end(session: Session, producer: TransactionalProducer, *, committed: bool) -> Steps[None]:
    if producer.is_empty:
        return
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )
    yield from _ask(session, producer, request, _error_of(producer.transactional_id), _END_TXN_VERSION)


def _renew(session: Session, producer: TransactionalProducer) -> Steps[None]:
    request = InitProducerIdRequest(
        transactional_id=producer.transactional_id,
        transaction_timeout_ms=producer.timeout_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
    answer: InitProducerIdResponse = yield from _ask(
        session, producer, request, _error_of(producer.transactional_id)
    )
    producer.renew(answer.producer_id, answer.producer_epoch)


def _ask(
    session: Session,
    producer: TransactionalProducer,
    request: object,
    error_of: Callable[[Any], ErrorResponse | None],
    at_most: int | None = None,
) -> Steps[Any]:
    key = CoordinatorKey.transaction(producer.transactional_id)
    try:
        return (yield from ask_coordinator(session, key, request, error_of, at_most=at_most))
    except ClientError as error:
        raise producer.fail(error) from error


def _error_of(transactional_id: str) -> Callable[[Any], ErrorResponse | None]:
    def error_of(answer: Any) -> ErrorResponse | None:
        code = ErrorCode.of(answer.error_code)
        return ErrorResponse(code, str(CoordinatorKey.transaction(transactional_id))) if code else None

    return error_of


def _add_partitions_error(answer: AddPartitionsToTxnResponse) -> ErrorResponse | None:
    """Return the error of the first partition with one, not of those that others kept from being added."""
    for topic in answer.results_by_topic_v3_and_below:
        for part in topic.results_by_partition:
            code = ErrorCode.of(part.partition_error_code)
            if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                return ErrorResponse(code, str(TopicPartition(topic.name, part.partition_index)))
    return None


def _offset_commit_error(answer: TxnOffsetCommitResponse) -> ErrorResponse | None:
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code:
                partition = TopicPartition(topic.name, part.partition_index)
                return ErrorResponse(ErrorCode.of(part.error_code), f"offset of {partition}")
    return None


def _offset_topics(offsets: Mapping[TopicPartition, GroupOffset]) -> list[TxnOffsetCommitRequestTopic]:
    by_topic: defaultdict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for partition, offset in offsets.items():
        by_topic[partition.topic].append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return [TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
