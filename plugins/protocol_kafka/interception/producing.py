"""Produce with interceptors: batches are refused, rewritten or routed before the handler appends the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from tidelog.kernel.errors import BrokerError, InvalidRequest, InvalidTopic, RecordsRefused
from tidelog.kernel.pace import Pace
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    is_message_set,
    pack_batch,
    parse_header,
    verify_crc,
)
from tidelog.kernel.records.message_set import is_cut
from tidelog.kernel.seams.interceptors import BatchInfo
from tidelog.kernel.seams.partition import AppendResult
from tidelog.plugins.protocol_kafka.apis.produce import (
    BATCHES_V2_SINCE,
    MAX_RECORD_ERRORS,
    NO_OFFSET,
    TOPIC_IDS_SINCE,
    close_on_error,
)
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.request.interception import Interception, TopicInterceptors
    from tidelog.kernel.topics import Topic
    from tidelog.plugins.protocol_kafka.apis import Handler, RequestContext

NO_PRODUCER_EPOCH = -1


_Target: TypeAlias = "tuple[Topic, TopicInterceptors]"
"""A topic and its interceptors; a plain tuple, as one is made for each batch."""


class _Admitted(NamedTuple):
    """A batch that the handler appends, for the interceptors that hear of its append."""

    info: BatchInfo
    interceptors: TopicInterceptors


class InterceptedProduce:
    """The handler of Produce behind interceptors."""

    __slots__ = ("_handle", "_interception")

    def __init__(self, interception: Interception, handle: Handler) -> None:
        self._interception = interception
        self._handle = handle

    def __call__(self, context: RequestContext, request: ProduceRequest) -> object:
        """Append what interceptors admit, as they make it."""
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            if all(self._target(context, topic) is None for topic in topics):
                return self._handle(context, request)
            return self._serve(context, request)
        target = self._target(context, topics[0])
        if target is None:
            return self._handle(context, request)
        topic, interceptors = target
        data = topics[0].partition_data[0]
        records = data.records
        if interceptors.rewrites or not request.acks or not records:
            return self._serve(context, request)
        try:
            info = _info(context, topic.name, data.index, records)
            if interceptors.admit(info) is not None:
                return self._serve(context, request)
        # `_serve` asks again, and refuses it unless it is in the log already; messages of the old formats it
        # makes a batch of.
        except BrokerError:
            return self._serve(context, request)
        outcome = self._handle(context, request)
        if not interceptors.hears:
            return outcome
        admitted = _Admitted(info, interceptors)
        if isinstance(outcome, Awaitable):
            return _reported_later(admitted, cast("Awaitable[ProduceResponse]", outcome))
        return _reported(admitted, cast("ProduceResponse", outcome))

    def _target(self, context: RequestContext, data: TopicProduceData) -> _Target | None:
        """Return a topic and its interceptors, None if it has none, or if the handler will refuse it."""
        topics = context.broker.topics
        by_id = context.api_version >= TOPIC_IDS_SINCE
        topic = topics.find_by_id(data.topic_id) if by_id else topics.find(data.name)
        if topic is None or topic.is_internal:
            return None
        interceptors = self._interception.of(context.peer.listener_name, topic.name)
        if interceptors is None or not interceptors.intercepts_appends:
            return None
        return topic, interceptors

    async def _serve(self, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
        acks, work, pace = request.acks, _InterceptedRequest(context), Pace()
        left: list[TopicProduceData] = []
        for number, data in enumerate(request.topic_data):
            target = self._target(context, data)
            if target is None:
                left.append(data)
                continue
            partitions: list[PartitionProduceData] = []
            for partition in data.partition_data:
                if await work.admit(number, target, partition):
                    partitions.append(partition)
                await pace.turn()
            left.append(_with_partitions(data, partitions))
        # With the results, which interceptors hear of.
        request.acks = acks or 1
        request.topic_data = [data for data in left if data.partition_data]
        outcome = self._handle(context, request)
        if isinstance(outcome, Awaitable):
            outcome = await cast("Awaitable[object]", outcome)
        response = cast("ProduceResponse", outcome)
        response.responses = work.merged(left, iter(response.responses))
        if not acks:
            close_on_error(response)
            return None
        return response


class _InterceptedRequest:
    """One request: the batches that the handler is to append, and the answers for all others."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._admitted: dict[tuple[int, int], _Admitted] = {}
        self._answers: dict[int, list[PartitionProduceResponse]] = {}
        self._record_errors = MAX_RECORD_ERRORS

    async def admit(self, number: int, target: _Target, data: PartitionProduceData) -> bool:
        """Have a batch for topic `number` of the request intercepted; return whether it is left to append."""
        topic, interceptors = target
        partition = self._context.broker.replicas.find(topic.name, data.index)
        if partition is None or not data.records:
            return True
        log = partition.log
        try:
            batch = await self._batch(log, topic, data, data.records)
            if batch is None:
                return True
            info, records = batch
            route = interceptors.admit(info)
            if route is not None:
                answer = await self._route(log, interceptors, info, records, route)
            else:
                if interceptors.rewrites:
                    data.records = memoryview(await interceptors.rewrite(info, records))
                self._admitted[number, data.index] = _Admitted(info, interceptors)
                return True
        except BrokerError as error:
            answer = self._refused(log, data.index, error)
        self._answers.setdefault(number, []).append(answer)
        return False

    async def _batch(
        self, log: UnifiedLog, topic: Topic, data: PartitionProduceData, records: memoryview
    ) -> tuple[BatchInfo, memoryview] | None:
        """Return the batch that interceptors are asked about; None for what the log will refuse or has.

        Raises:
            BrokerError: the batch is refused.
        """
        if is_message_set(records):
            if self._context.api_version >= BATCHES_V2_SINCE or is_cut(records):
                return None
            records = data.records = memoryview(await log.batch_of_message_set(records))
        try:
            info = _info(self._context, topic.name, data.index, records)
        except BrokerError:
            return None
        header = info.header
        if header.size != len(records) or not verify_crc(records, header):
            return None
        # A retry is in the log, whatever would be decided about it now.
        if header.producer_id > NO_PRODUCER_ID and log.producers.check(header, sequenced=True) is not None:
            return None
        return info, records

    async def _route(
        self,
        log: UnifiedLog,
        interceptors: TopicInterceptors,
        info: BatchInfo,
        records: memoryview,
        route: str,
    ) -> PartitionProduceResponse:
        """Append a batch to another topic, and keep its producer's place in the sequence of this one.

        Raises:
            BrokerError: it cannot be appended there.
        """
        context, header = self._context, info.header
        if header.is_transactional:
            raise InvalidRequest(f"a batch of a transaction cannot be routed to {route}")
        topic = context.broker.topics.get(route)
        if topic.is_internal:
            raise InvalidTopic(f"{route} is the broker's own: no batch is routed to it")
        index = info.partition % len(topic.partitions)
        result = await _append(topic.partitions[index].log, _without_producer(header, records))
        interceptors.appended(info._replace(topic=route, partition=index), result)
        # Behind it: a retry of a batch that is here is not routed again.
        base_offset = NO_OFFSET
        if header.producer_id > NO_PRODUCER_ID:
            base_offset = log.append_placeholder(header).base_offset
        return PartitionProduceResponse(
            index=info.partition,
            error_code=0,
            base_offset=base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=log.log_start_offset,
        )

    def _refused(self, log: UnifiedLog, index: int, error: BrokerError) -> PartitionProduceResponse:
        context = self._context
        context.warn(f"an interceptor refuses to append to {log.topic_partition} for", error)
        answer = PartitionProduceResponse(
            index=index,
            error_code=error_code(error),
            base_offset=NO_OFFSET,
            log_start_offset=log.log_start_offset,
            error_message=context.error_message(error),
        )
        if isinstance(error, RecordsRefused) and error.record_errors:
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
                for number, message in error.record_errors[: self._record_errors]
            ]
            self._record_errors -= len(answer.record_errors)
        return answer

    def merged(
        self, left: list[TopicProduceData], responses: Iterator[TopicProduceResponse]
    ) -> list[TopicProduceResponse]:
        """Return the responses of all topics; `responses` are those of the handler for what was `left`."""
        merged: list[TopicProduceResponse] = []
        for number, data in enumerate(left):
            if data.partition_data:
                response = next(responses)
            else:
                response = TopicProduceResponse(
                    name=data.name, topic_id=data.topic_id, partition_responses=[]
                )
            for answer in response.partition_responses:
                if (admitted := self._admitted.get((number, answer.index))) is not None:
                    _report(admitted, answer)
            response.partition_responses = [*response.partition_responses, *self._answers.get(number, ())]
            merged.append(response)
        return merged


def _with_partitions(data: TopicProduceData, partitions: list[PartitionProduceData]) -> TopicProduceData:
    return TopicProduceData(name=data.name, topic_id=data.topic_id, partition_data=partitions)


def _info(context: RequestContext, topic: str, partition: int, records: memoryview) -> BatchInfo:
    """Return what interceptors get of a batch; raises BrokerError if it is none."""
    host, _, listener, _ = context.peer
    # Without a Python function in between, as the class of a named tuple has one: each batch comes by.
    return tuple.__new__(  # pyright: ignore[reportUnknownMemberType]
        BatchInfo,
        (
            topic,
            partition,
            parse_header(records),
            len(records),
            listener,
            host,
            context.principal,
            context.client_id,
        ),
    )


def _without_producer(header: BatchHeader, records: memoryview) -> bytearray:
    anonymous = header._replace(
        producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE
    )
    return pack_batch(anonymous, records[HEADER_BYTES:])


async def _append(log: UnifiedLog, batch: bytearray) -> AppendResult:
    appended = log.append_as_leader(batch)
    result = appended if isinstance(appended, AppendResult) else await appended
    if result.flush_due:
        await log.wait_flushed(result.last_offset)
    return result


def _report(admitted: _Admitted, answer: PartitionProduceResponse) -> None:
    """Report what became of a batch to its interceptors."""
    if not answer.error_code:
        last_offset = answer.base_offset + admitted.info.header.last_offset_delta
        result = AppendResult(answer.base_offset, last_offset, answer.log_append_time_ms)
        admitted.interceptors.appended(admitted.info, result)


def _reported(admitted: _Admitted, response: ProduceResponse) -> ProduceResponse:
    """Report the append of the only batch of a request."""
    _report(admitted, response.responses[0].partition_responses[0])
    return response


async def _reported_later(admitted: _Admitted, outcome: Awaitable[ProduceResponse]) -> ProduceResponse:
    return _reported(admitted, await outcome)
