"""Produce: one batch to one partition, idempotent with a producer id of `init_producer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NO_PRODUCER, encode_batch
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.metadata import LedPartitions, at_leaders, metadata
from tidelog.plugins.client.operations.producer_ids import (
    LAST_VERSION_BEFORE_TRANSACTION_V2,
    LAST_VERSION_BY_NAME,
)
from tidelog.plugins.client.operations.sending import (
    Outcomes,
    or_raise,
    retry_each,
    send_request,
)
from tidelog.plugins.client.operations.transactions import add_partitions
from tidelog.plugins.client.producers import IdempotentProducer, TransactionalProducer
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

    from tidelog.plugins.client.batches import EncodedBatch, NewRecord
    from tidelog.plugins.client.steps import Session, Steps

UNKNOWN_OFFSET: Final = -1

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

    Args:
        session: the client's session
        partition: topic and partition
        records: at least one
        compression: none, gzip, snappy, lz4 or zstd
        acks: as in `produce_batches`
        producer: as in `produce_batches`

    Raises:
        ValueError: `records` is empty, the compression is unknown, or `acks` is not -1 with a producer.
        ProducerInDoubt: the producer's last batch for the partition may or may not have been appended.
        ClientError: the batch is not in the log; after `BrokerClosed` and `RequestTimedOut` it may be.
    """
    batch = encode_batch(records, now_ms=session.now_ms(), compression=compression)
    outcomes = yield from produce_batches(session, {partition: batch}, acks=acks, producer=producer)
    return or_raise(outcomes)[partition]


def produce_batches(
    session: Session,
    batches: Mapping[TopicPartition, EncodedBatch],
    *,
    acks: int = -1,
    producer: IdempotentProducer | None = None,
) -> Steps[Outcomes[TopicPartition, Produced]]:
    """Append one batch to each partition, with one request to each leader; return each outcome.

    Without a `producer` only a batch that was certainly not appended is retried; with one, every retriable
    error. After an error of a transactional producer its transaction can only be aborted.

    Args:
        session: the client's session
        batches: by topic and partition
        acks: -1 waits for all in-sync replicas, 1 for the leader, 0 for no response
        producer: from `init_producer` or `init_transactions`, for idempotence; it needs acks -1

    Raises:
        ValueError: `acks` is not -1 with a producer.
        ProducerInDoubt: the producer's last batch for a partition may or may not have been appended.
        InvalidTransactionState: the producer is transactional and has no open transaction.
        ClientError: the partitions cannot be added to the transaction.
    """
    if producer is not None and acks != -1:
        raise ValueError(f"an idempotent producer needs acks -1, not {acks}")
    stamps = {part: NO_PRODUCER if producer is None else producer.next_stamp(part) for part in batches}
    missing = yield from _missing(session, batches)
    ready = {part: batch for part, batch in batches.items() if part not in missing}
    sending = _Sending({part: batch.stamped(stamps[part]) for part, batch in ready.items()}, acks)
    if producer is None:
        return {**missing, **(yield from _send_each(session, sending, _is_safe_to_repeat))}
    refused: Outcomes[TopicPartition, Produced] = {
        part: producer.refused(part, error) for part, error in missing.items()
    }
    if isinstance(producer, TransactionalProducer):
        if refused:
            # The transaction can only be aborted, so that there is no point in sending the others.
            return {**dict.fromkeys(batches, next(iter(refused.values()))), **refused}
        sending.transactional_id = producer.transactional_id
        yield from add_partitions(session, producer, batches)
    return {**refused, **(yield from _send_once_only(session, sending, producer, ready))}


def _missing(
    session: Session, partitions: Iterable[TopicPartition]
) -> Steps[dict[TopicPartition, ClientError]]:
    """Return an error for each partition whose topic is not there, and is not created in time."""
    unknown = {part.topic for part in partitions if not session.cluster.has_topic(part.topic)}
    if not unknown:
        return {}
    wanted = [part for part in partitions if part.topic in unknown]
    try:
        errors = (yield from metadata(session, sorted(unknown), create=True)).errors
    except ClientError as error:
        return dict.fromkeys(wanted, error)
    return {
        part: ErrorResponse(errors[part.topic], f"topic {part.topic!r}")
        for part in wanted
        if part.topic in errors
    }


@attrs.define
class _Sending:
    """One call of `produce_batches`; `doubtful` has the partitions whose batch may have been appended."""

    packed: Mapping[TopicPartition, bytearray]
    acks: int
    transactional_id: str | None = None
    doubtful: set[TopicPartition] = attrs.field(factory=set[TopicPartition], init=False)


def _send_once_only(
    session: Session,
    sending: _Sending,
    producer: IdempotentProducer,
    batches: Mapping[TopicPartition, EncodedBatch],
) -> Steps[Outcomes[TopicPartition, Produced]]:
    """Send batches and record in the producer whether each was appended, refused or is in doubt."""
    # Before anything is sent: if this operation ends without an outcome, the batches stay in doubt.
    for partition in batches:
        producer.sending(partition)
    outcomes = yield from _send_each(session, sending, lambda error: error.retriable)
    for partition, outcome in outcomes.items():
        if not isinstance(outcome, ClientError):
            producer.appended(partition, batches[partition].record_count)
        elif partition not in sending.doubtful:
            outcomes[partition] = producer.refused(partition, outcome)
    return outcomes


def _send_each(
    session: Session, sending: _Sending, may_retry: Callable[[ClientError], bool]
) -> Steps[Outcomes[TopicPartition, Produced]]:
    """Send batches, and again those with an error for which `may_retry` is true."""

    def attempt(pending: list[TopicPartition]) -> Steps[Outcomes[TopicPartition, Produced]]:
        outcomes = yield from at_leaders(session, pending, lambda led: _send(session, led, sending))
        for partition, outcome in outcomes.items():
            if isinstance(outcome, ClientError) and not _is_certainly_not_appended(outcome):
                sending.doubtful.add(partition)
        return outcomes

    return (yield from retry_each(session, sending.packed, attempt, may_retry))


def _send(
    session: Session, led: LedPartitions, sending: _Sending
) -> Steps[Outcomes[TopicPartition, Produced]]:
    topics: dict[str, TopicProduceData] = {}
    for partition in led.partitions:
        topic_id = session.cluster.topic_id(partition.topic)
        topic = topics.setdefault(
            partition.topic,
            TopicProduceData(name=partition.topic, topic_id=topic_id.bytes, partition_data=[]),
        )
        topic.partition_data.append(
            PartitionProduceData(index=partition.partition, records=memoryview(sending.packed[partition]))
        )
    request = ProduceRequest(
        transactional_id=sending.transactional_id,
        acks=sending.acks,
        timeout_ms=int(session.settings.request_timeout_s * 1000),
        topic_data=list(topics.values()),
    )
    answer: ProduceResponse | None = yield from send_request(
        session, request, node=led.leader, at_most=_highest_version(sending, topics.values())
    )
    if answer is None:
        return {partition: Produced(partition) for partition in led.partitions}
    return _outcomes(led.partitions, {bytes(each.topic_id): each.name for each in topics.values()}, answer)


def _highest_version(sending: _Sending, topics: Iterable[TopicProduceData]) -> int | None:
    if sending.transactional_id is not None:
        return LAST_VERSION_BEFORE_TRANSACTION_V2
    by_name = any(topic.topic_id == NO_TOPIC_ID.bytes for topic in topics)
    return LAST_VERSION_BY_NAME if by_name else None


def _outcomes(
    partitions: Sequence[TopicPartition], names: Mapping[bytes, str], answer: ProduceResponse
) -> Outcomes[TopicPartition, Produced]:
    answered = {
        TopicPartition(topic.name or names.get(bytes(topic.topic_id), ""), part.index): part
        for topic in answer.responses
        for part in topic.partition_responses
    }
    return {partition: _outcome(partition, answered.get(partition)) for partition in partitions}


def _outcome(partition: TopicPartition, part: PartitionProduceResponse | None) -> Produced | ErrorResponse:
    if part is None:
        return ErrorResponse.missing(str(partition))
    code = ErrorCode.of(part.error_code)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        # An earlier attempt appended it, too long ago for the broker to know its offset.
        return Produced(partition)
    if code is not ErrorCode.NONE:
        return ErrorResponse(code, str(partition), part.error_message)
    return Produced(partition, part.base_offset, part.log_append_time_ms, part.log_start_offset)


def _is_safe_to_repeat(error: ClientError) -> bool:
    return error.retriable and _is_certainly_not_appended(error)


def _is_certainly_not_appended(error: ClientError) -> bool:
    if isinstance(error, ErrorResponse):
        return error.code not in _MAYBE_APPENDED
    return not error.reached_broker
