"""A Fetch request that names every partition: reading them, and waiting at all of them."""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Generator, Iterator
from functools import partial
from operator import attrgetter

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import ThreadPace, each_in_steps, run_in_steps
from tidelog.kernel.seams.partition import AppendWaiter
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.plugins.protocol_kafka.apis.fetch_reads import TOPIC_IDS_SINCE, PartitionReads
from tidelog.plugins.protocol_kafka.apis.slices import PARTITIONS_PER_SLICE, has_more
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tidelog.plugins.schema.layout import FEW_ELEMENTS


def fetch_all(context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Read the partitions; wait up to `max_wait_ms` until there are `min_bytes`."""
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        if has_more(topics, "partitions", FEW_ELEMENTS):
            return _fetch_many(context, request)
        collections.deque(_name_each_once(request), maxlen=0)
    read = _FullRead(context, request)
    try:
        response = read.once(wait=False)
    except WouldBlock:
        return _read_and_wait(read)
    return read.sent(response) if read.is_enough() else _wait_and_read(read, response)


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
    read = _FullRead(context, request, of_many=True)
    deadline = trio.current_time() + read.max_wait_seconds
    response = await read.in_thread(partial(read.once, wait=True))
    while not read.is_enough() and trio.current_time() < deadline:
        enough = trio.Event()
        waiter = AppendWaiter(read.missing_bytes, enough.set)
        try:
            await run_in_steps(read.register(waiter))
            if not await run_in_steps(read.find_outdated(response)):
                with trio.move_on_at(deadline):
                    await enough.wait()
        finally:
            for partition in read.partitions:
                partition.remove_waiter(waiter)
        response = await read.in_thread(partial(read.once, wait=True))
    return read.sent(response)


async def _read_and_wait(read: _FullRead) -> FetchResponse:
    response = await read.in_thread(partial(read.once, wait=True))
    return read.sent(response) if read.is_enough() else await _wait_and_read(read, response)


async def _wait_and_read(read: _FullRead, response: FetchResponse) -> FetchResponse:
    deadline = trio.current_time() + read.max_wait_seconds
    while read.is_outdated(response):  # data was appended before the waiter was registered
        response = await _read_again(read)
        if read.is_enough():
            return read.sent(response)
    enough = trio.Event()
    waiter = AppendWaiter(read.missing_bytes, enough.set)
    # No checkpoint lies between the last look and this, so nothing is appended unnoticed.
    for partition in read.partitions:
        partition.add_waiter(waiter, read.isolation)
    try:
        with trio.move_on_at(deadline):
            await enough.wait()
    finally:
        for partition in read.partitions:
            partition.remove_waiter(waiter)
    return read.sent(await _read_again(read))


async def _read_again(read: _FullRead) -> FetchResponse:
    try:
        return read.once(wait=False)
    except WouldBlock:
        return await read.in_thread(partial(read.once, wait=True))


_partitions_of = attrgetter("partitions")


class _FullRead(PartitionReads):
    """Passes over the partitions of a full request."""

    def __init__(self, context: RequestContext, request: FetchRequest, *, of_many: bool = False) -> None:
        """With `of_many` the request has more than `FEW_ELEMENTS` partitions."""
        super().__init__(context, request, sum(map(len, map(_partitions_of, request.topics))))
        self.pace = ThreadPace() if of_many else None
        self._topics_asked = request.topics

    def is_outdated(self, response: FetchResponse) -> bool:
        """Return whether another pass would return more than the last one, which returned `response`."""
        return self.topics.closing or any(self._find_outdated(response))

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
        return self.topics.closing

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
        """Read every partition.

        Raises:
            WouldBlock: unless `wait`.
        """
        self.start_pass()
        responses = [*map(partial(self._topic, wait), self._topics_asked)]
        response = FetchResponse(responses=responses, node_endpoints=self.endpoints)
        if not self.partitions:
            # There is nothing to wait for.
            self.is_final = True
        return response

    def _topic(self, wait: bool, asked: FetchTopic) -> FetchableTopicResponse:
        topics, by_id = self.topics, self.version >= TOPIC_IDS_SINCE
        try:
            topic = topics.get_by_id(asked.topic_id) if by_id else topics.get(asked.topic)
        except BrokerError as error:
            code = error_code(error)
            parts = [self.fail(partition.partition, code) for partition in asked.partitions]
        else:
            parts = [*map(partial(self.read_partition, wait, topic), asked.partitions)]
        return FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=parts)
