"""Produce: one batch to one partition, idempotent with a producer id from InitProducerId."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.batches import NewRecord, ProducerStamp, build_batch
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse, ProducerInDoubt
from tidelog.plugins.client.operations.metadata import forget_if_stale, leader_of
from tidelog.plugins.client.operations.sending import retrying, send_request
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.steps import Session, Steps

LAST_VERSION_BY_NAME: Final = 12
"""First version of Produce that identifies topics by id."""
NO_TRANSACTION_TIMEOUT_MS: Final = 0x7FFFFFFF
"""Ignored without a transactional id; Kafka's own producer sends this value."""
UNKNOWN_OFFSET: Final = -1

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_MAYBE_APPENDED: Final = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


@attrs.frozen
class Produced:
    """Result of a Produce.

    Attributes:
        partition: topic and partition
        base_offset: the offset of the first record; -1 without a response (acks 0)
        log_append_time_ms: the timestamp that the broker set, -1 for CreateTime
        log_start_offset: the partition's log start offset, -1 when it is unknown
    """

    partition: TopicPartition
    base_offset: int = UNKNOWN_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: int = -1


@attrs.define
class IdempotentProducer:
    """Producer id with its epoch, and the next sequence number of each partition.

    Between `begin` and `appended` or `refused` a batch is in doubt. If it stays in doubt, because the broker
    did not answer, this producer cannot send more batches to the partition.
    """

    producer_id: int
    producer_epoch: int
    _next: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int], init=False)
    _in_doubt: set[TopicPartition] = attrs.field(factory=set[TopicPartition], init=False)

    def next_stamp(self, partition: TopicPartition) -> ProducerStamp:
        """Return the producer id, epoch and base sequence of the next batch for a partition.

        Raises:
            ProducerInDoubt: the last batch is in doubt, or in flight.
        """
        if partition in self._in_doubt:
            raise ProducerInDoubt(str(partition))
        return ProducerStamp(self.producer_id, self.producer_epoch, self._next.get(partition, 0))

    def begin(self, partition: TopicPartition) -> None:
        """Mark the partition's next batch as sent."""
        self._in_doubt.add(partition)

    def appended(self, partition: TopicPartition, records: int) -> None:
        """Advance the sequence number by the `count` records of the batch, which is in the log."""
        self._next[partition] = (self._next.get(partition, 0) + records) & _SEQUENCE_MASK
        self._in_doubt.discard(partition)

    def refused(self, partition: TopicPartition) -> None:
        """Keep the sequence number: the batch is certainly not in the log."""
        self._in_doubt.discard(partition)


def init_producer(session: Session) -> Steps[IdempotentProducer]:
    """Return a new producer id for `produce`, so that a batch that is sent again is not appended again.

    Raises:
        ClientError: no broker returned one.
    """

    def attempt() -> Steps[IdempotentProducer]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        answer: InitProducerIdResponse = yield from send_request(session, request)
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "producer id")
        return IdempotentProducer(answer.producer_id, answer.producer_epoch)

    return (yield from retrying(session, attempt))


def produce(
    session: Session,
    partition: TopicPartition,
    records: Sequence[NewRecord],
    *,
    compression: str = "none",
    acks: int = -1,
    producer: IdempotentProducer | None = None,
) -> Steps[Produced]:
    """Append records as one batch.

    Without a `producer` only a batch that was certainly not appended is retried; with one, every retriable
    error.

    Args:
        session: the client's session
        partition: topic and partition
        records: at least one
        compression: none, gzip, snappy, lz4 or zstd
        acks: -1 waits for all in-sync replicas, 1 for the leader, 0 for no response
        producer: from `init_producer`, for idempotence; it needs acks -1

    Raises:
        ValueError: `records` is empty, the compression is unknown, or `acks` is not -1 with a producer.
        ProducerInDoubt: the producer's last batch for the partition may or may not have been appended.
        ClientError: the batch is not in the log; after `BrokerClosed` and `RequestTimedOut` it may be.
    """
    if producer is not None and acks != -1:
        raise ValueError(f"an idempotent producer needs acks -1, not {acks}")
    stamp = producer.next_stamp(partition) if producer else None
    batch = build_batch(records, now_ms=session.now_ms(), compression=compression, stamp=stamp)

    def attempt() -> Steps[Produced]:
        return _attempt(session, partition, batch, acks)

    if producer is not None:
        return (yield from _once_only(session, producer, partition, len(records), attempt))
    return (
        yield from retrying(
            session, attempt, may_retry=lambda error: error.retriable and _is_certainly_not_appended(error)
        )
    )


def _once_only(
    session: Session,
    producer: IdempotentProducer,
    partition: TopicPartition,
    records: int,
    attempt: Callable[[], Steps[Produced]],
) -> Steps[Produced]:
    """Send a batch and record in the producer whether it was appended, refused or is in doubt."""
    doubtful: list[ClientError] = []

    def may_retry(error: ClientError) -> bool:
        if not _is_certainly_not_appended(error):
            doubtful.append(error)
        return error.retriable

    producer.begin(partition)
    try:
        produced = yield from retrying(session, attempt, may_retry=may_retry)
    except ClientError as error:
        if not doubtful and _is_certainly_not_appended(error):
            producer.refused(partition)
        raise
    producer.appended(partition, records)
    return produced


def _attempt(session: Session, partition: TopicPartition, batch: bytearray, acks: int) -> Steps[Produced]:
    leader = yield from leader_of(session, partition)
    topic_id = session.cluster.topic_id(partition.topic)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=int(session.settings.request_timeout_s * 1000),
        topic_data=[
            TopicProduceData(
                name=partition.topic,
                topic_id=topic_id.bytes,
                partition_data=[PartitionProduceData(index=partition.partition, records=memoryview(batch))],
            )
        ],
    )
    at_most = LAST_VERSION_BY_NAME if topic_id == NO_TOPIC_ID else None
    try:
        answer: ProduceResponse | None = yield from send_request(
            session, request, node=leader, at_most=at_most
        )
        return Produced(partition) if answer is None else _produced(partition, answer)
    except ClientError as error:
        forget_if_stale(session, partition.topic, error)
        raise


def _produced(partition: TopicPartition, answer: ProduceResponse) -> Produced:
    response = _response_of(partition, answer)
    code = ErrorCode.of(response.error_code)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        # An earlier attempt appended it, too long ago for the broker to know its offset.
        return Produced(partition)
    if code is not ErrorCode.NONE:
        raise ErrorResponse(code, str(partition), response.error_message)
    return Produced(partition, response.base_offset, response.log_append_time_ms, response.log_start_offset)


def _response_of(partition: TopicPartition, answer: ProduceResponse) -> PartitionProduceResponse:
    for topic in answer.responses:
        for part in topic.partition_responses:
            if part.index == partition.partition:
                return part
    raise ErrorResponse.missing(str(partition))


def _is_certainly_not_appended(error: ClientError) -> bool:
    if isinstance(error, ErrorResponse):
        return error.code not in _MAYBE_APPENDED
    return not error.reached_broker
