"""Appending at the target, within the transactions of a mirror.

The batches of a partition are sent as pipelined requests, with consecutive sequence numbers; a broker handles
the requests of a connection in order. Nothing is sent again: if a request fails, or its outcome is in doubt,
the transaction is aborted as a whole, and the mirror begins where the last committed one has ended. So the
limit of five requests, which idempotent producers have for retries, is none here.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidelog.plugins.client.batches import encode_batch
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.metadata import forget_if_stale, leaders_of
from tidelog.plugins.client.operations.producer_ids import LAST_VERSION_BEFORE_TRANSACTION_V2
from tidelog.plugins.client.operations.sending import send_requests
from tidelog.plugins.client.operations.transactions import add_partitions, commit_transaction
from tidelog.plugins.mirror.errors import PartitionRefused
from tidelog.plugins.mirror.source_batches import OutgoingBatch
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import NewRecord, ProducerStamp
    from tidelog.plugins.client.producers import TransactionalProducer
    from tidelog.plugins.client.steps import Session, Steps

_OF_PARTITION: Final = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
"""Errors of one partition, which the others need not share."""
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_MOST_LEDGER_RECORDS: Final = 2000
"""Of one batch, which then has about 200 kB."""


def append_in_transaction(
    session: Session,
    producer: TransactionalProducer,
    batches: Mapping[TopicPartition, Sequence[OutgoingBatch]],
) -> Steps[dict[TopicPartition, list[int]]]:
    """Append the batches of each partition in order; return their base offsets.

    Raises:
        PartitionRefused: a batch was refused.
        ClientError: another error. After any error the transaction can only be aborted.
    """
    try:
        yield from add_partitions(session, producer, batches)
        by_leader = yield from _by_leader(session, list(batches))
    except ErrorResponse as error:
        raise producer.fail(_of_partition(error, batches)) from error
    offsets: dict[TopicPartition, list[int]] = {partition: [] for partition in batches}
    stamps = {partition: producer.next_stamp(partition) for partition in batches}
    for partition in batches:
        producer.sending(partition)
    for leader, partitions in by_leader.items():
        of_leader = {partition: batches[partition] for partition in partitions}
        requests = list(_requests(session, producer.transactional_id, of_leader, stamps))
        try:
            answers = yield from send_requests(
                session, requests, node=leader, at_most=LAST_VERSION_BEFORE_TRANSACTION_V2
            )
            _take(answers, of_leader, offsets)
        except ClientError as error:
            for partition in partitions:
                forget_if_stale(session, partition.topic, error)
            raise producer.fail(error) from error
    for partition, each in batches.items():
        producer.appended(partition, sum(batch.record_count for batch in each))
    return offsets


def commit_with_ledger(
    session: Session,
    producer: TransactionalProducer,
    ledger: TopicPartition,
    records: Sequence[NewRecord],
) -> Steps[None]:
    """Append records to the ledger and commit the open transaction.

    Raises:
        ClientError: the transaction may or may not be committed.
    """
    batches = [
        _ledger_batch(records[first : first + _MOST_LEDGER_RECORDS], session.now_ms())
        for first in range(0, len(records), _MOST_LEDGER_RECORDS)
    ]
    yield from append_in_transaction(session, producer, {ledger: batches})
    yield from commit_transaction(session, producer)


def _of_partition(error: ErrorResponse, partitions: Iterable[TopicPartition]) -> ClientError:
    """Return the error as one of the partition that it names, if it is of such a kind."""
    found = next((each for each in partitions if str(each) == error.subject), None)
    return PartitionRefused(found, error, None) if found and error.code in _OF_PARTITION else error


def _ledger_batch(records: Sequence[NewRecord], now_ms: int) -> OutgoingBatch:
    encoded = encode_batch(records, now_ms=now_ms)
    return OutgoingBatch(encoded.stamped(), encoded.codec, encoded.record_count, 0, encoded.record_count)


def _by_leader(
    session: Session, partitions: Sequence[TopicPartition]
) -> Steps[dict[int, list[TopicPartition]]]:
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in (yield from leaders_of(session, partitions)).items():
        if isinstance(leader, ErrorResponse):
            raise leader
        by_leader[leader].append(partition)
    return by_leader


def _requests(
    session: Session,
    transactional_id: str,
    batches: Mapping[TopicPartition, Sequence[OutgoingBatch]],
    stamps: dict[TopicPartition, ProducerStamp],
) -> Iterator[ProduceRequest]:
    """Yield requests with one batch of each partition, the most that brokers take, stamped in their order."""
    for index in range(max(map(len, batches.values()))):
        topics: dict[str, TopicProduceData] = {}
        for partition, each in batches.items():
            if index >= len(each):
                continue
            batch, stamp = each[index], stamps[partition]
            batch.stamp(stamp)
            following = (stamp.base_sequence + batch.record_count) & _SEQUENCE_MASK
            stamps[partition] = attrs.evolve(stamp, base_sequence=following)
            topic = topics.setdefault(
                partition.topic, TopicProduceData(name=partition.topic, partition_data=[])
            )
            topic.partition_data.append(
                PartitionProduceData(index=partition.partition, records=memoryview(batch.data))
            )
        yield ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=int(session.settings.request_timeout_s * 1000),
            topic_data=list(topics.values()),
        )


def _take(
    answers: Sequence[Any],
    batches: Mapping[TopicPartition, Sequence[OutgoingBatch]],
    offsets: dict[TopicPartition, list[int]],
) -> None:
    """Note the base offsets in the responses; the first error is the cause of those that follow."""
    for index, answer in enumerate(answers):
        found: dict[tuple[str, int], PartitionProduceResponse] = {
            (topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses
        }
        for partition, each in batches.items():
            if index < len(each):
                part = found.get(partition)
                if part is None:
                    raise ErrorResponse.missing(str(partition))
                if part.error_code:
                    code = ErrorCode.of(part.error_code)
                    error = ErrorResponse(code, str(partition), part.error_message)
                    raise PartitionRefused(partition, error, each[index]) if code in _OF_PARTITION else error
                offsets[partition].append(part.base_offset)
