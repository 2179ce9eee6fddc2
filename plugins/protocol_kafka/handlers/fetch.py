"""Fetch (API 1): read batches from partitions, waiting for more when there is too little.

The response has regions of segment files, which the server sends without copying. A read that would have
to wait for the disk is repeated in a thread.
"""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Generator, Iterator
from functools import partial

import trio

from tidelog.kernel.errors import BrokerError, UnknownTopicOrPartition
from tidelog.kernel.pace import ThreadPace, each_in_steps, run_in_steps
from tidelog.kernel.seams.partition import AppendWaiter, Isolation, Partition
from tidelog.kernel.seams.storage import EMPTY_SLICE, LogSlice, WouldBlock
from tidelog.kernel.seams.topics import Topic
from tidelog.plugins.protocol_kafka.codecs.layout import FEW_ELEMENTS
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.handlers.common_fields import isolation_of
from tidelog.plugins.protocol_kafka.handlers.down_conversion import (
    BATCHES_SINCE,
    MAX_FIRST_BYTES,
    NO_MESSAGES,
    PIECE_BYTES,
    Conversion,
    ConvertedRecords,
    converted,
)
from tidelog.plugins.protocol_kafka.handlers.slices import PARTITIONS_PER_SLICE, has_more
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

TOPIC_IDS_SINCE = 13
WITHOUT_SESSION = (0, -1)
NO_PARTITION = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Epochs of a full fetch request, which opens a session or closes one."""


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Read the partitions; wait up to `max_wait_ms` until there are `min_bytes`.

    Fetch sessions are not supported: like a broker whose session cache is full, the response has session id
    0, and the client continues with full requests (KIP-227).
    """
    if request.session_epoch not in WITHOUT_SESSION:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        if has_more(topics, "partitions", FEW_ELEMENTS):
            return _fetch_many(context, request)
        collections.deque(_name_each_once(request), maxlen=0)
    read = _Read(context, request)
    try:
        response = read.once(wait=False)
    except WouldBlock:
        return _read_and_wait(read, request)
    return response if read.is_enough() else _wait_and_read(read, request, response)


def _name_each_once(request: FetchRequest) -> Generator[None, None, None]:
    """Keep the last entry of a partition that is repeated, as Apache Kafka does, in steps."""
    asked: dict[tuple[str, bytes], dict[int, FetchPartition]] = {}
    count = 0
    for topic in request.topics:
        partitions = asked.setdefault((topic.topic, topic.topic_id), {})
        for start in range(0, len(topic.partitions), PARTITIONS_PER_SLICE):
            some = topic.partitions[start : start + PARTITIONS_PER_SLICE]
            partitions.update((partition.partition, partition) for partition in some)
            count += len(some)
            yield
        yield
    if len(asked) < len(request.topics) or sum(map(len, asked.values())) < count:
        request.topics = yield from each_in_steps(asked.items(), _topic_of)


def _topic_of(named: tuple[tuple[str, bytes], dict[int, FetchPartition]]) -> FetchTopic:
    (name, topic_id), partitions = named
    return FetchTopic(topic=name, topic_id=topic_id, partitions=[*partitions.values()])


async def _fetch_many(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Read very many partitions: a thread does, and waiters are registered in steps.

    They are registered before it is known whether the last pass is outdated, as appends come in between.
    """
    await run_in_steps(_name_each_once(request))
    read = _Read(context, request, of_many=True)
    deadline = trio.current_time() + read.max_wait_seconds
    response = await read.in_thread()
    while not read.is_enough() and trio.current_time() < deadline:
        enough = trio.Event()
        waiter = AppendWaiter(request.min_bytes - read.size, enough.set)
        try:
            await run_in_steps(read.register(waiter))
            if not await run_in_steps(read.find_outdated(response)):
                with trio.move_on_at(deadline):
                    await enough.wait()
        finally:
            for partition in read.partitions:
                partition.remove_waiter(waiter)
        response = await read.in_thread()
    return response


async def _read_and_wait(read: _Read, request: FetchRequest) -> FetchResponse:
    response = await read.in_thread()
    return response if read.is_enough() else await _wait_and_read(read, request, response)


async def _wait_and_read(read: _Read, request: FetchRequest, response: FetchResponse) -> FetchResponse:
    deadline = trio.current_time() + read.max_wait_seconds
    while read.is_outdated(response):  # data was appended before the waiter was registered
        response = await _read_again(read)
        if read.is_enough():
            return response
    enough = trio.Event()
    waiter = AppendWaiter(request.min_bytes - read.size, enough.set)
    for partition in read.partitions:
        partition.add_waiter(waiter, read.isolation)
    try:
        with trio.move_on_at(deadline):
            await enough.wait()
    finally:
        for partition in read.partitions:
            partition.remove_waiter(waiter)
    return await _read_again(read)


async def _read_again(read: _Read) -> FetchResponse:
    try:
        return read.once(wait=False)
    except WouldBlock:
        return await read.in_thread()


class _Read:
    """Passes over the partitions of a request."""

    def __init__(self, context: RequestContext, request: FetchRequest, *, of_many: bool = False) -> None:
        """With `of_many` the request has more than `FEW_ELEMENTS` partitions."""
        # All partitions get their share of what is converted before a response is sent.
        count = FEW_ELEMENTS if of_many else sum(len(topic.partitions) for topic in request.topics)
        self._first_bytes = min(PIECE_BYTES, MAX_FIRST_BYTES // max(count, 1))
        self._pace = ThreadPace() if of_many else None
        self._topics = context.broker.topics
        self._max_bytes = min(request.max_bytes, context.fetch_max_bytes)
        self._max_idle_ms = context.max_idle_ms
        self._version = context.api_version
        self._request = request
        self.isolation = isolation_of(request.isolation_level)
        self._failed = False
        self.size = self._held_bytes = 0
        self.partitions: list[Partition] = []

    async def in_thread(self) -> FetchResponse:
        """Read as `once` does, but wait for the disk, and for memory for down-conversion."""
        job = partial(self.once, wait=True)
        if self._version < BATCHES_SINCE:
            return await self._topics.unpacking.read(job)
        return await trio.to_thread.run_sync(job)

    def is_enough(self) -> bool:
        """Return whether the last pass is the response: enough bytes, an error, or nothing to wait for."""
        request = self._request
        return (
            self.size >= request.min_bytes
            or request.max_wait_ms <= 0
            or self._failed
            or not self.partitions
            or self._topics.closing
        )

    @property
    def max_wait_seconds(self) -> float:
        """Return how long to wait, in seconds: less than an idle connection may stay open."""
        idle_ms = self._max_idle_ms
        wait_ms = self._request.max_wait_ms
        return (wait_ms if idle_ms < 0 else min(wait_ms, idle_ms)) / 1000

    def is_outdated(self, response: FetchResponse) -> bool:
        """Return whether another pass would return more than the last one, which returned `response`."""
        return self._topics.closing or any(self._find_outdated(response))

    def register(self, waiter: AppendWaiter) -> Generator[None, None, None]:
        """Have `waiter` wait at all partitions, in steps."""
        for number, partition in enumerate(self.partitions):
            partition.add_waiter(waiter, self.isolation)
            if number % PARTITIONS_PER_SLICE == 0:
                yield

    def find_outdated(self, response: FetchResponse) -> Generator[None, None, bool]:
        """Return what `is_outdated` does, in steps."""
        for number, outdated in enumerate(self._find_outdated(response)):
            if outdated:
                return True
            if number % PARTITIONS_PER_SLICE == 0:
                yield
        return self._topics.closing

    def _find_outdated(self, response: FetchResponse) -> Iterator[bool]:
        answered = (
            part.last_stable_offset if self.isolation else part.high_watermark
            for topic in response.responses
            for part in topic.partitions
        )
        return (
            partition.readable_end(self.isolation) != end or partition.offline is not None
            for partition, end in zip(self.partitions, answered, strict=True)
        )

    def once(self, *, wait: bool) -> FetchResponse:
        """Read every partition; `size`, `partitions` and the outcome of `is_enough` are of this pass.

        Raises:
            WouldBlock: unless `wait`.
        """
        self.size = self._held_bytes = 0
        self.partitions = []
        self._failed = False
        return FetchResponse(responses=[*map(partial(self._topic, wait), self._request.topics)])

    def _topic(self, wait: bool, asked: FetchTopic) -> FetchableTopicResponse:
        topics, by_id = self._topics, self._version >= TOPIC_IDS_SINCE
        try:
            topic = topics.get_by_id(asked.topic_id) if by_id else topics.get(asked.topic)
        except BrokerError as error:
            code = error_code(error)
            self._failed = True
            parts = [_failed(partition.partition, code) for partition in asked.partitions]
        else:
            parts = [*map(partial(self._partition, wait, topic), asked.partitions)]
        return FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=parts)

    def _partition(self, wait: bool, topic: Topic, asked: FetchPartition) -> PartitionData:
        if self._pace is not None:
            self._pace.turn()
        try:
            if not 0 <= asked.partition < len(topic.partitions):
                raise UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {asked.partition}")
            partition = topic.partitions[asked.partition]
            partition.check_leader_epoch(asked.current_leader_epoch)
            # Before the read, so that data appended while a thread reads does not count as read.
            watermarks = partition.watermarks
            high_watermark, last_stable = watermarks.high_watermark, watermarks.last_stable_offset
            records = self._read(partition, asked, wait=wait)
            aborted = None
            if self.isolation is Isolation.READ_COMMITTED and isinstance(records, LogSlice):
                aborted = _aborted(partition, asked.fetch_offset, records, wait=wait)
        except BrokerError as error:
            self._failed = True
            return _failed(asked.partition, error_code(error))
        self.partitions.append(partition)
        self.size += records.size
        return PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=last_stable,
            log_start_offset=watermarks.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _read(
        self, partition: Partition, asked: FetchPartition, *, wait: bool
    ) -> LogSlice | ConvertedRecords:
        """Read up to the request's limit; the first partition with data returns its first batch whole."""
        left = self._max_bytes - self.size
        allowed = min(asked.partition_max_bytes, left)
        if self.size and allowed <= 0:
            return EMPTY_SLICE
        if self._version < BATCHES_SINCE:
            return self._read_message_set(partition, asked.fetch_offset, allowed, wait=wait)
        records = partition.read(asked.fetch_offset, allowed, self.isolation, wait=wait)
        return EMPTY_SLICE if self.size and records.size > allowed else records

    def _read_message_set(
        self, partition: Partition, offset: int, allowed: int, *, wait: bool
    ) -> ConvertedRecords:
        if not wait:
            raise WouldBlock

        def read(start: int, max_bytes: int = PIECE_BYTES) -> LogSlice:
            return partition.read(start, max_bytes, self.isolation, wait=True)

        stored = read(offset, max(allowed, 1))
        if not stored.size:
            return NO_MESSAGES
        unpacking = partition.unpacking
        conversion = Conversion(read, offset, self._version, unpacking)
        first_bytes = self._first_bytes if self._held_bytes < MAX_FIRST_BYTES else 0
        records = converted(conversion, stored, allowed, unpacking.read, first_bytes)
        self._held_bytes += records.held_bytes
        return records


def _aborted(partition: Partition, offset: int, records: LogSlice, *, wait: bool) -> list[AbortedTransaction]:
    """Return the aborted transactions that a read-committed consumer has to skip in this data."""
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.aborted_transactions(offset, records, wait=wait)
    ]


def _failed(index: int, code: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        # As in Kafka, where an answer without a partition is made in another place than all others.
        aborted_transactions=[] if code in NO_PARTITION else None,
        records=b"",
    )
