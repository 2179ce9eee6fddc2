"""Produce (API 0): append one batch to each partition named, or in versions 0 to 2 a message set."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from tidelog.kernel.errors import (
    BrokerError,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    RecordsRefused,
    UnknownTopicOrPartition,
    UnsupportedCompression,
    UnsupportedMessageFormat,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.records.batch import CODEC_MASK, HEADER_BYTES, is_message_set
from tidelog.kernel.records.message_set import is_cut
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.apis.current_leader import name_leader
from tidelog.plugins.protocol_kafka.apis.slices import (
    PARTITIONS_PER_SLICE,
    has_more,
    merge,
    slices,
)
from tidelog.plugins.protocol_kafka.apis.transaction_verification import TransactionVerification
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceLeaderIdAndEpoch,
    ProduceNodeEndpoint,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.topics import Topic

TOPIC_IDS_SINCE = 13
BATCHES_V2_SINCE = 3
CURRENT_LEADER_SINCE = 10
ZSTD_SINCE = 7
ZSTD = 4
NO_OFFSET = -1
APPENDS_AT_ONCE = 64
"""Most batches of a request that are appended in its first step, and fewer if that takes too long."""
APPENDS_A_TURN = 16
"""Most batches in each further step."""
MAX_RECORD_ERRORS = 10_000
"""Most record errors in one response, which take a megabyte; further batches list their first error only."""
INTERNAL_WRITER = "__admin_client"
"""The only client id that may write to internal topics, as in Kafka."""
CODEC_AT = 22
"""Position of the low byte of a batch's attributes."""


class DueFlush(NamedTuple):
    """Response that waits until the record at `offset` is flushed."""

    log: UnifiedLog
    offset: int
    answer: PartitionProduceResponse


class DelayedAppend(NamedTuple):
    """Batch that could not be appended at once.

    `appending` is what the partition returned to be awaited; None if the append has not begun, as other
    batches come before this one.
    """

    log: UnifiedLog
    records: memoryview
    answer: PartitionProduceResponse
    appending: Awaitable[AppendResult] | None


def handle(
    context: RequestContext, request: ProduceRequest, verification: TransactionVerification | None = None
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append batches; they are in the log when this returns, so acks 1 and -1 are the same on one broker.

    The response waits for the disk only where `flush.messages` requires it. A large compressed batch is
    appended once its records were checked, a message set once it was converted; what the client sent behind
    it waits until then. A transactional
    request has its `verification` when all partitions were added to the transaction that can be.
    """
    topics = request.topic_data
    one_batch = len(topics) == 1 and len(topics[0].partition_data) == 1
    if not one_batch and has_more(topics, "partition_data", PARTITIONS_PER_SLICE):
        return _append_in_slices(context, request)
    if verification is None and request.transactional_id is not None:
        verification = TransactionVerification(context, request.transactional_id)
        if missing := verification.missing(request):
            return _add_and_append(context, request, verification, missing)
    appends = _Appends(context, request.acks, verification, None if one_batch else Pace())
    response = appends.response
    response.responses = [*map(appends.append_topic, topics)]
    if appends.delayed or appends.flushes:
        return _answer_later(appends, request, response)
    if not request.acks:
        close_on_error(response)
        return None
    return response


async def _add_and_append(
    context: RequestContext,
    request: ProduceRequest,
    verification: TransactionVerification,
    missing: Mapping[ProducerIdentity, Sequence[TopicPartition]],
) -> ProduceResponse | None:
    await verification.add(missing)
    answer = handle(context, request, verification)
    return await answer if isinstance(answer, Awaitable) else answer


async def _append_in_slices(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Append very many batches in slices; other requests are served in between.

    The partitions of each slice are added to the transaction before it is appended.
    """
    answers: dict[int, TopicProduceResponse] = {}
    endpoints: dict[int, ProduceNodeEndpoint] = {}
    pace = Pace()
    for some in slices(request.topic_data, "partition_data"):
        part = copy.copy(request)
        part.topic_data = some.topics
        answer = handle(context, part)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is not None:
            merge(answers, some.places, answer.responses, "partition_responses")
            endpoints.update((each.node_id, each) for each in answer.node_endpoints)
        await pace.turn()
    if not request.acks:
        return None
    return ProduceResponse(responses=[*answers.values()], node_endpoints=[*endpoints.values()])


async def _answer_later(
    appends: _Appends, request: ProduceRequest, response: ProduceResponse
) -> ProduceResponse | None:
    await appends.finish()
    if not request.acks:
        close_on_error(response)
        return None
    return response


class _Appends:
    """The appends of one request, or of a slice of it.

    With `delayed` or `flushes` the `response` has to wait for `finish`.
    """

    __slots__ = (
        "_acks",
        "_at_once",
        "_context",
        "_delayed_partitions",
        "_pace",
        "_record_errors",
        "_verification",
        "delayed",
        "flushes",
        "response",
    )

    def __init__(
        self,
        context: RequestContext,
        acks: int,
        verification: TransactionVerification | None,
        pace: Pace | None,
    ) -> None:
        """`pace` limits how long the first step appends, None where it has one batch."""
        self._context = context
        self._acks = acks
        self._verification = verification
        self._delayed_partitions: set[UnifiedLog] = set()
        self.delayed: list[DelayedAppend] = []
        self.flushes: list[DueFlush] = []
        self._at_once = APPENDS_AT_ONCE
        self._pace = pace
        self._record_errors = MAX_RECORD_ERRORS
        self.response = ProduceResponse(responses=[])

    def append_topic(self, data: TopicProduceData) -> TopicProduceResponse:
        """Append the batches for one topic; `finish` completes the results of those that are delayed."""
        context, acks = self._context, self._acks
        topics = context.broker.topics
        try:
            by_id = context.api_version >= TOPIC_IDS_SINCE
            topic = topics.get_by_id(data.topic_id) if by_id else topics.get(data.name)
            if not -1 <= acks <= 1:
                raise InvalidRequiredAcks(f"acks={acks} is none of -1, 0 and 1")
            if topic.is_internal and context.client_id != INTERNAL_WRITER:
                raise InvalidTopic(f"{topic.name} is the broker's own: clients may not write to it")
        except BrokerError as error:
            name = data.name or data.topic_id.hex()
            answers = [self._failed(name, partition.index, error) for partition in data.partition_data]
        else:
            answers = [*map(partial(self._append_partition, topic), data.partition_data)]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)

    def _append_partition(self, topic: Topic, data: PartitionProduceData) -> PartitionProduceResponse:
        index, records, version = data.index, data.records, self._context.api_version
        partition = self._context.broker.replicas.find(topic.name, index)
        if partition is None:
            unknown = UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {index}")
            return self._failed(topic.name, index, unknown)
        if records is None or (not records and version >= BATCHES_V2_SINCE):
            nothing = InvalidRecord(f"{topic.name}-{index}: the request carries no record batch")
            return self._failed(topic.name, index, nothing)
        if version < ZSTD_SINCE and _has_zstd(records):
            too_old = UnsupportedCompression(
                f"zstd needs version {ZSTD_SINCE} of Produce, this is version {version}"
            )
            return self._failed(topic.name, index, too_old)
        log = partition.log
        log.traffic.produces += 1
        answer = PartitionProduceResponse(index=index, error_code=0, base_offset=NO_OFFSET)
        if version < BATCHES_V2_SINCE and self._is_empty_set(log, records, answer):
            return answer
        # The first batch never waits, however late it is.
        if self._at_once != APPENDS_AT_ONCE and self._has_to_wait(log):
            self._delay(DelayedAppend(log, records, answer, None))
            return answer
        self._at_once -= 1
        try:
            if version < BATCHES_V2_SINCE and is_message_set(records):
                appended = log.append_message_set(records)
            else:
                verify = self._verify(log, records) if self._verification else None
                appended = log.append_as_leader(records, verify)
        except BrokerError as error:
            self._refuse(log, answer, error)
            return answer
        if isinstance(appended, AppendResult):
            self._accept(log, answer, appended)
        else:
            self._delay(DelayedAppend(log, records, answer, appended))
        return answer

    def _has_to_wait(self, log: UnifiedLog) -> bool:
        """Return whether this step has appended enough."""
        is_late = self._pace is not None and self._pace.is_over()
        return is_late or self._at_once <= 0 or log in self._delayed_partitions

    def _is_empty_set(self, log: UnifiedLog, records: memoryview, answer: PartitionProduceResponse) -> bool:
        """Return whether there is nothing to append: no message, or a part of one, is no error in Kafka."""
        try:
            return is_cut(records)
        except BrokerError as error:
            self._refuse(log, answer, error)
            return True

    def _verify(self, log: UnifiedLog, records: memoryview) -> Callable[[], int] | None:
        """Return what verifies a batch that may be transactional."""
        if self._verification is None:
            return None
        return partial(self._verification.verify, log.topic_partition, records)

    def _accept(self, log: UnifiedLog, answer: PartitionProduceResponse, result: AppendResult) -> None:
        answer.base_offset = result.base_offset
        self._context.records_received += result.last_offset - result.base_offset + 1
        answer.log_append_time_ms = result.log_append_time_ms
        answer.log_start_offset = log.watermarks.log_start_offset
        if result.flush_due:
            self.flushes.append(DueFlush(log, result.last_offset, answer))

    def _delay(self, batch: DelayedAppend) -> None:
        """Append a batch in `finish`, and behind it all others for its partition."""
        self.delayed.append(batch)
        self._delayed_partitions.add(batch.log)

    async def finish(self) -> None:
        """Append what was delayed, then wait for the flushes that `flush.messages` requires."""
        pace = self._pace or Pace()
        for number, batch in enumerate(self.delayed):
            if number % APPENDS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            await pace.turn()
            await self._append_delayed(batch)
        # One after the other: the appends have begun all of these flushes.
        for flush in self.flushes:
            await self._wait_flushed(flush)

    async def _append_delayed(self, batch: DelayedAppend) -> None:
        log, records, answer, appending = batch
        try:
            appended = appending or self._begin(log, records)
            result = appended if isinstance(appended, AppendResult) else await appended
        except BrokerError as error:
            self._refuse(log, answer, error)
        else:
            self._accept(log, answer, result)

    def _begin(self, log: UnifiedLog, records: memoryview) -> AppendResult | Awaitable[AppendResult]:
        if self._context.api_version < BATCHES_V2_SINCE and is_message_set(records):
            return log.append_message_set(records)
        return log.append_as_leader(records, self._verify(log, records))

    async def _wait_flushed(self, due: DueFlush) -> None:
        log, offset, answer = due
        try:
            await log.wait_flushed(offset)
        except BrokerError as error:
            self._context.warn(f"not acknowledging {log.topic_partition} for", error)
            self._set_error(log, answer, error)

    def _refuse(self, log: UnifiedLog, answer: PartitionProduceResponse, error: BrokerError) -> None:
        """Set the error of a refused batch, and of its invalid records (KIP-467)."""
        context = self._context
        log.traffic.failed_produces += 1
        context.warn(f"refusing to append to {log.topic_partition} for", error)
        if isinstance(error, UnsupportedMessageFormat) and context.api_version >= BATCHES_V2_SINCE:
            error = InvalidRecord(str(error))
        self._set_error(log, answer, error)
        if isinstance(error, OutOfOrderSequence | InvalidProducerEpoch):
            answer.log_start_offset = log.log_start_offset
        if isinstance(error, RecordsRefused) and error.record_errors:
            answer.log_start_offset = log.log_start_offset
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in error.record_errors[: self._record_errors]
            ]
            self._record_errors -= len(answer.record_errors)

    def _set_error(self, log: UnifiedLog, answer: PartitionProduceResponse, error: BrokerError) -> None:
        context = self._context
        answer.error_code, answer.error_message = error_code(error), context.error_message(error)
        answer.base_offset = NO_OFFSET
        if isinstance(error, NotLeaderOrFollower) and context.api_version >= CURRENT_LEADER_SINCE:
            endpoints = self.response.node_endpoints
            leader_id, epoch = name_leader(context, *log.topic_partition, endpoints, ProduceNodeEndpoint)
            answer.current_leader = ProduceLeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)

    def _failed(self, name: str, index: int, error: BrokerError) -> PartitionProduceResponse:
        context = self._context
        context.warn(f"refusing to append to {name}-{index} for", error)
        return PartitionProduceResponse(
            index=index,
            error_code=error_code(error),
            base_offset=NO_OFFSET,
            error_message=context.error_message(error),
        )


def _has_zstd(records: memoryview) -> bool:
    """Return whether this is a record batch compressed with zstd; message sets never are."""
    if is_message_set(records):
        return False
    return len(records) >= HEADER_BYTES and records[CODEC_AT] & CODEC_MASK == ZSTD


def close_on_error(response: ProduceResponse) -> None:
    """Close the connection on an error, as Kafka does with acks 0.

    Raises:
        ProtocolViolation: a batch was not appended.
    """
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = topic.name or topic.topic_id.hex()
                raise ProtocolViolation(
                    f"Produce with acks=0 failed for {name}-{partition.index}: {partition.error_message}"
                )
