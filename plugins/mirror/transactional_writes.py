"""Appending at the target, within the transactions of a mirror.

The batches of a partition are sent as pipelined requests, with consecutive sequence numbers; a broker handles
the requests of a connection in order. Nothing is sent again: if a request fails, or its outcome is in doubt,
the transaction is aborted as a whole, and the mirror begins where the last committed one has ended. So the
limit of five requests, which idempotent producers have for retries, is none here.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

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
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import NewRecord
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
_MOST_REQUEST_BYTES: Final = 256 * 1024
_MOST_LEDGER_RECORDS: Final = 2000
"""Of one batch, which then has about 200 kB."""


def prepare_append(
    session: Session, producer: TransactionalProducer, partitions: Sequence[TopicPartition]
) -> Steps[None]:
    """Add partitions to the open transaction and find their leaders.

    Raises:
        PartitionRefused: the target has no such partition, or does not take it.
        ClientError: another error. After any error the transaction can only be aborted.
    """
    try:
        yield from add_partitions(session, producer, partitions)
        yield from _by_leader(session, partitions)
    except ErrorResponse as error:
        raise producer.fail(_of_partition(error, partitions)) from error


def append_in_transaction(
    session: Session,
    producer: TransactionalProducer,
    batches: Mapping[TopicPartition, Sequence[OutgoingBatch]],
    sent: Callable[[], None] = lambda: None,
) -> Steps[dict[TopicPartition, list[int]]]:
    """Append the batches of each partition in order, after `prepare_append`; return their base offsets.

    `sent` is called when the first requests are about to be sent: what is begun after that comes after them.

    Raises:
        PartitionRefused: a batch was refused.
        ClientError: another error. After any error the transaction can only be aborted.
    """
    by_leader = yield from _by_leader(session, list(batches))
    offsets: dict[TopicPartition, list[int]] = {partition: [] for partition in batches}
    contents = {
        leader: _contents_of_requests({each: batches[each] for each in partitions})
        for leader, partitions in by_leader.items()
    }
    # All are stamped before any is sent, so that further appends get the numbers behind them.
    requests = {
        leader: [_request(session, producer, content) for content in each]
        for leader, each in contents.items()
    }
    sent()
    for leader, partitions in by_leader.items():
        try:
            answers = yield from send_requests(
                session, requests[leader], node=leader, at_most=LAST_VERSION_BEFORE_TRANSACTION_V2
            )
            for content, answer in zip(contents[leader], answers, strict=True):
                _take(content, answer, offsets)
        except ClientError as error:
            for partition in partitions:
                forget_if_stale(session, partition.topic, error)
            raise producer.fail(error) from error
    for partition in batches:
        producer.settled(partition)
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
    yield from prepare_append(session, producer, [ledger])
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


def _contents_of_requests(
    batches: Mapping[TopicPartition, Sequence[OutgoingBatch]],
) -> list[dict[TopicPartition, OutgoingBatch]]:
    """Divide batches into requests: each has one batch of a partition at most, as brokers take no more.

    Small batches of several partitions cost less in one request; large ones are handled sooner in their own.
    """
    contents: list[dict[TopicPartition, OutgoingBatch]] = []
    for index in range(max(map(len, batches.values()))):
        content: dict[TopicPartition, OutgoingBatch] = {}
        size = 0
        for partition, each in batches.items():
            if index >= len(each):
                continue
            if content and size + len(each[index].data) > _MOST_REQUEST_BYTES:
                contents.append(content)
                content, size = {}, 0
            content[partition] = each[index]
            size += len(each[index].data)
        contents.append(content)
    return contents


def _request(
    session: Session, producer: TransactionalProducer, content: Mapping[TopicPartition, OutgoingBatch]
) -> ProduceRequest:
    """Return a request with these batches, stamped with the next sequence numbers."""
    topics: dict[str, TopicProduceData] = {}
    for partition, batch in content.items():
        batch.stamp(producer.reserve(partition, batch.record_count))
        topic = topics.setdefault(partition.topic, TopicProduceData(name=partition.topic, partition_data=[]))
        topic.partition_data.append(
            PartitionProduceData(index=partition.partition, records=memoryview(batch.data))
        )
    return ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=int(session.settings.request_timeout_s * 1000),
        topic_data=list(topics.values()),
    )


def _take(
    content: Mapping[TopicPartition, OutgoingBatch],
    answer: ProduceResponse,
    offsets: dict[TopicPartition, list[int]],
) -> None:
    """Note the base offsets in a response; the first error of all is the cause of those that follow."""
    found: dict[tuple[str, int], PartitionProduceResponse] = {
        (topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses
    }
    for partition, batch in content.items():
        part = found.get(partition)
        if part is None:
            raise ErrorResponse.missing(str(partition))
        if part.error_code:
            code = ErrorCode.of(part.error_code)
            error = ErrorResponse(code, str(partition), part.error_message)
            raise PartitionRefused(partition, error, batch) if code in _OF_PARTITION else error
        offsets[partition].append(part.base_offset)
