"""Produce (API 0): append one batch to each partition named."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple

import trio

from tidelog.kernel.errors import (
    BrokerError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    RecordsRefused,
    UnknownTopicOrPartition,
    UnsupportedCompression,
    UnsupportedMessageFormat,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.partition.validation import ChecksTakeLong, validate_batch
from tidelog.kernel.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity
from tidelog.kernel.seams.partition import Partition, RecordChecks
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.topics import Topic
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.handlers.slices import (
    PARTITIONS_PER_SLICE,
    merge,
    partition_count,
    slices,
)
from tidelog.plugins.protocol_kafka.handlers.topic_names import find_topic
from tidelog.plugins.protocol_kafka.handlers.vouching import Voucher
from tidelog.plugins.protocol_kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

TOPIC_IDS_SINCE = 13
BATCHES_V2_SINCE = 3
ZSTD_SINCE = 7
ZSTD = 4
NO_OFFSET = -1
APPENDS_AT_ONCE = 64
"""So many batches of a request are appended before others are served; each takes up to a few tenths of a
millisecond."""
APPENDS_A_TURN = 16
"""The same for those that follow."""
MAX_RECORD_ERRORS = 10_000
"""So many records are named in one answer, which takes a megabyte; other batches tell the first only."""
INTERNAL_WRITER = "__admin_client"
"""The one client id that Kafka lets write to internal topics."""
CODEC_AT = 22
"""The low byte of a batch's attributes."""


class FlushDue(NamedTuple):
    """An answer that has to wait until the record at `offset` is flushed."""

    partition: Partition
    offset: int
    answer: PartitionProduceResponse


class ToCheck(NamedTuple):
    """A batch whose records have to be checked before it is appended.

    Without `header` it was not looked at yet, as others come before it.
    """

    partition: Partition
    records: memoryview
    header: BatchHeader | None
    answer: PartitionProduceResponse
    voucher: Voucher | None


class Waiting:
    """What the answer to one request has to wait for, and what is left of what one request may take."""

    __slots__ = ("at_once", "due", "partitions", "record_errors", "to_check")

    def __init__(self) -> None:
        self.to_check: list[ToCheck] = []
        self.partitions: set[Partition] = set()
        """Those of `to_check`: what follows for them has to wait, too."""
        self.due: list[FlushDue] = []
        self.at_once = APPENDS_AT_ONCE
        self.record_errors = MAX_RECORD_ERRORS


def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append; a batch is in the log when this returns, so acks 1 and -1 are the same on a single broker.

    Only where `flush.messages` asks for it the answer waits for the disk. A large compressed batch is
    appended once its records were checked; what the client sent behind it waits until then.
    """
    voucher = None
    if request.transactional_id is not None:
        voucher = Voucher(context, request.transactional_id)
        missing = voucher.missing(request)
        if missing:
            return _answer_once_added(context, request, voucher, missing)
    return _append_all(context, request, voucher)


async def _answer_once_added(
    context: RequestContext,
    request: ProduceRequest,
    voucher: Voucher,
    missing: Mapping[ProducerIdentity, Sequence[TopicPartition]],
) -> ProduceResponse | None:
    await voucher.add(missing)
    answer = _append_all(context, request, voucher)
    return await answer if isinstance(answer, Awaitable) else answer


def _append_all(
    context: RequestContext, request: ProduceRequest, voucher: Voucher | None
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if partition_count(request.topic_data, "partition_data") > PARTITIONS_PER_SLICE:
        return _append_in_slices(context, request, voucher)
    return _append_at_once(context, request, voucher)


async def _append_in_slices(
    context: RequestContext, request: ProduceRequest, voucher: Voucher | None
) -> ProduceResponse | None:
    """Append very many batches, so that other requests have their turn in between."""
    answers: dict[int, TopicProduceResponse] = {}
    pace = Pace()
    for some in slices(request.topic_data, "partition_data"):
        part = copy.copy(request)
        part.topic_data = some.topics
        answer = _append_at_once(context, part, voucher)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is not None:
            merge(answers, some.places, answer.responses, "partition_responses")
        await pace.turn()
    return ProduceResponse(responses=[*answers.values()]) if request.acks else None


def _append_at_once(
    context: RequestContext, request: ProduceRequest, voucher: Voucher | None
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    acks_error = _check_acks(request.acks)
    waiting = Waiting()
    answers = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=_append_topic(context, topic, acks_error, waiting, voucher),
        )
        for topic in request.topic_data
    ]
    response = ProduceResponse(responses=answers)
    if waiting.to_check or waiting.due:
        return _answer_later(context, request, response, waiting)
    return _answer(request, response)


async def _answer_later(
    context: RequestContext, request: ProduceRequest, response: ProduceResponse, waiting: Waiting
) -> ProduceResponse | None:
    """Append what had to be checked before; acknowledge nothing that `flush.messages` wants on disk first."""
    for number, batch in enumerate(waiting.to_check):
        if number % APPENDS_A_TURN == 0:
            await trio.lowlevel.checkpoint()
        await _check_and_append(context, batch, waiting)
    async with trio.open_nursery() as flushes:
        for flush in waiting.due:
            flushes.start_soon(_flush, context, flush)
    return _answer(request, response)


async def _check_and_append(context: RequestContext, batch: ToCheck, waiting: Waiting) -> None:
    partition, answer = batch.partition, batch.answer
    try:
        header = batch.header or validate_batch(batch.records, partition.config)
        header = await partition.check_records(batch.records, header)
        covered = batch.voucher is not None and batch.voucher.covers(partition.topic_partition, batch.records)
        result = partition.append(
            batch.records, in_transaction=covered, checks=RecordChecks.DONE, header=header
        )
    except BrokerError as error:
        _refuse(context, partition, answer, error, waiting)
        return
    answer.base_offset = result.base_offset
    answer.log_append_time_ms = result.log_append_time_ms
    answer.log_start_offset = partition.log_start_offset
    if result.flush_due:
        waiting.due.append(FlushDue(partition, result.last_offset, answer))


async def _flush(context: RequestContext, due: FlushDue) -> None:
    partition, offset, answer = due
    try:
        await partition.wait_flushed(offset)
    except BrokerError as error:
        context.warn(f"not acknowledging {partition.topic_partition} for", error)
        answer.error_code, answer.error_message = error_code(error), context.error_message(error)
        answer.base_offset = NO_OFFSET


def _answer(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
    if request.acks != 0:
        return response
    _close_on_error(response)
    return None


def _check_acks(acks: int) -> InvalidRequiredAcks | None:
    return None if -1 <= acks <= 1 else InvalidRequiredAcks(f"acks={acks} is none of -1, 0 and 1")


def _append_topic(
    context: RequestContext,
    data: TopicProduceData,
    acks_error: InvalidRequiredAcks | None,
    waiting: Waiting,
    voucher: Voucher | None,
) -> list[PartitionProduceResponse]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    try:
        topic = find_topic(context.broker.topics, data.name, data.topic_id, by_id=by_id)
        if acks_error is not None:
            raise acks_error
        if topic.is_internal and context.client_id != INTERNAL_WRITER:
            raise InvalidTopic(f"{topic.name} is the broker's own: clients may not write to it")
    except BrokerError as error:
        name = data.name or data.topic_id.hex()
        return [_failed(context, name, partition.index, error) for partition in data.partition_data]
    return [_append(context, topic, partition, waiting, voucher) for partition in data.partition_data]


def _append(
    context: RequestContext,
    topic: Topic,
    data: PartitionProduceData,
    waiting: Waiting,
    voucher: Voucher | None,
) -> PartitionProduceResponse:
    index, records, version = data.index, data.records, context.api_version
    if not 0 <= index < len(topic.partitions):
        unknown = UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {index}")
        return _failed(context, topic.name, index, unknown)
    if not records:
        nothing = InvalidRecord(f"{topic.name}-{index}: the request carries no record batch")
        return _failed(context, topic.name, index, nothing)
    if version < ZSTD_SINCE and len(records) >= HEADER_BYTES and records[CODEC_AT] & CODEC_MASK == ZSTD:
        too_old = UnsupportedCompression(
            f"zstd needs version {ZSTD_SINCE} of Produce, this is version {version}"
        )
        return _failed(context, topic.name, index, too_old)
    partition = topic.partitions[index]
    waiting.at_once -= 1
    if waiting.at_once < 0 or (waiting.to_check and partition in waiting.partitions):
        return _append_later(ToCheck(partition, records, None, _unanswered(index), voucher), waiting)
    try:
        covered = voucher is not None and voucher.covers(partition.topic_partition, records)
        result = partition.append(records, in_transaction=covered, checks=RecordChecks.QUICK)
    except ChecksTakeLong as checks:
        return _append_later(ToCheck(partition, records, checks.header, _unanswered(index), voucher), waiting)
    except BrokerError as error:
        answer = _unanswered(index)
        _refuse(context, partition, answer, error, waiting)
        return answer
    answer = PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=partition.log_start_offset,
    )
    if result.flush_due:
        waiting.due.append(FlushDue(partition, result.last_offset, answer))
    return answer


def _append_later(batch: ToCheck, waiting: Waiting) -> PartitionProduceResponse:
    waiting.to_check.append(batch)
    waiting.partitions.add(batch.partition)
    return batch.answer


def _unanswered(index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=0, base_offset=NO_OFFSET)


def _refuse(
    context: RequestContext,
    partition: Partition,
    answer: PartitionProduceResponse,
    error: BrokerError,
    waiting: Waiting,
) -> None:
    """Answer why the partition refused a batch, and which of its records are to blame (KIP-467)."""
    context.warn(f"refusing to append to {partition.topic_partition} for", error)
    if isinstance(error, UnsupportedMessageFormat) and context.api_version >= BATCHES_V2_SINCE:
        error = InvalidRecord(str(error))
    answer.error_code, answer.error_message = error_code(error), context.error_message(error)
    answer.base_offset = NO_OFFSET
    if isinstance(error, RecordsRefused) and error.record_errors:
        answer.log_start_offset = partition.log_start_offset
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors[: waiting.record_errors]
        ]
        waiting.record_errors -= len(answer.record_errors)


def _failed(context: RequestContext, name: str, index: int, error: BrokerError) -> PartitionProduceResponse:
    context.warn(f"refusing to append to {name}-{index} for", error)
    return PartitionProduceResponse(
        index=index,
        error_code=error_code(error),
        base_offset=NO_OFFSET,
        error_message=context.error_message(error),
    )


def _close_on_error(response: ProduceResponse) -> None:
    """A client that asked for no answer can only be told by closing (as Kafka does)."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = topic.name or topic.topic_id.hex()
                raise ProtocolViolation(
                    f"Produce with acks=0 failed for {name}-{partition.index}: {partition.error_message}"
                )
