"""A Fetch request in a session: reading what has changed, and waiting without visiting the partitions.

Errors of the session are at the top level of the response, which has no partitions then.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from tidelog.kernel.pace import ThreadPace, each_in_steps, run_in_steps
from tidelog.kernel.seams.partition import AppendWaiter
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.plugins.protocol_kafka.apis.common_fields import isolation_of
from tidelog.plugins.protocol_kafka.apis.fetch_reads import TOPIC_IDS_SINCE, PartitionReads
from tidelog.plugins.protocol_kafka.apis.full_fetch import fetch_all
from tidelog.plugins.protocol_kafka.apis.slices import has_more
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.fetch_session import (
    CachedPartition,
    IncrementalFetchSession,
    ReadPartition,
    TopicKey,
    place_of_error,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from tidelog.plugins.schema.layout import FEW_ELEMENTS

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic

T = TypeVar("T")


def fetch_incrementally(
    context: RequestContext, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    """Read the changed partitions of the session; wait up to `max_wait_ms` until there are `min_bytes`."""
    session = context.fetch_sessions.get(request.session_id)
    if session is None:
        return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if session.epoch != request.session_epoch:
        return _refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    if session.uses_topic_ids != (context.api_version >= TOPIC_IDS_SINCE):
        return _refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    session.begin_request(isolation_of(request.isolation_level))
    topics, forgotten = request.topics, request.forgotten_topics_data
    if topics or forgotten:
        update = session.update(topics, forgotten)
        if has_more(topics, "partitions", FEW_ELEMENTS) or has_more(forgotten, "partitions", FEW_ELEMENTS):
            return _update_and_fetch(context, request, session, run_in_steps(update))
        collections.deque(update, maxlen=0)
    return _fetch_changed(context, request, session)


def _refused(code: ErrorCode) -> FetchResponse:
    return FetchResponse(error_code=code, responses=[])


async def _update_and_fetch(
    context: RequestContext,
    request: FetchRequest,
    session: IncrementalFetchSession,
    update: Awaitable[None],
) -> FetchResponse:
    session.hold()
    try:
        await update
        response = _fetch_changed(context, request, session)
        return response if isinstance(response, FetchResponse) else await response
    finally:
        session.release()


def _fetch_changed(
    context: RequestContext, request: FetchRequest, session: IncrementalFetchSession
) -> FetchResponse | Awaitable[FetchResponse]:
    cache = context.fetch_sessions
    if not session.size:
        # What is left are partitions that were added and removed by the same request, if any.
        cache.remove(session.id)
        return fetch_all(context, request)
    if not cache.touch(session):
        return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    read = _SessionRead(context, request, session)
    try:
        read.on_the_loop()
    except WouldBlock:
        return read.respond(in_thread=True)
    return read.respond_now() if read.is_enough() else read.respond()


class _SessionRead(PartitionReads):
    """Passes over the changed partitions of a session, and the response to one of its requests."""

    def __init__(
        self, context: RequestContext, request: FetchRequest, session: IncrementalFetchSession
    ) -> None:
        super().__init__(context, request, session.size)
        self._session = session
        self._epoch = session.epoch
        self._timer = context.fetch_sessions.timer
        self._found: Sequence[ReadPartition] = ()
        self._uncounted = session.uncounted

    @property
    def _is_superseded(self) -> bool:
        """Whether the session has had another request since: two connections use it, or one repeats."""
        return self._session.epoch != self._epoch

    def on_the_loop(self) -> None:
        """Read the changed partitions.

        Raises:
            WouldBlock: a read would wait for the disk, or they are many; read in a thread.
        """
        changed = self._session.to_read()
        self._uncounted = self._session.uncounted
        if len(changed) > FEW_ELEMENTS:
            raise WouldBlock
        self.pace = None
        self._found = self._pass(changed, wait=False) if changed else self._nothing()

    def respond_now(self) -> FetchResponse:
        """Return the response with the few partitions of the last pass."""
        answer = self._session.answer
        return self._response([read for read in self._found if answer(read)])

    async def respond(self, *, in_thread: bool = False) -> FetchResponse:
        """Wait until there is enough, and return the response; `in_thread`: there was no pass yet."""
        deadline = trio.current_time() + self.max_wait_seconds
        session = self._session
        # From here on the session may be evicted, or superseded, while this request waits.
        session.hold()
        try:
            if in_thread:
                await self._read_in_thread()
            is_over = False
            while not (is_over or self.is_enough() or self._is_superseded):
                is_over = await self._wait(deadline)
                await self._read_again()
            if self._is_superseded:
                return FetchResponse(
                    error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id, responses=[]
                )
            if not self._found:
                return self._response(())
            news = await _each(session.answer, self._found)
            return self._response([*itertools.compress(self._found, news)])
        finally:
            session.release()

    async def _wait(self, deadline: float) -> bool:
        """Wait until there is enough, or the time is over; return False if it was not waited."""
        session, enough, timer = self._session, trio.Event(), self._timer
        # The session counts from here on what comes, also while very many partitions are visited.
        waiter = session.waiter = AppendWaiter(self.missing_bytes, enough.set)
        try:
            # More came while a thread read, or the responses to earlier requests were sent.
            if session.uncounted != self._uncounted or any(await _each(session.wait_for, self._found)):
                return trio.current_time() >= deadline
            tick = timer.add(waiter, deadline)
            try:
                await enough.wait()
            finally:
                timer.discard(waiter, tick)
            return True
        finally:
            if session.waiter is waiter:
                session.waiter = None

    async def _read_again(self) -> None:
        if self._is_superseded:
            return
        try:
            self.on_the_loop()
        except WouldBlock:
            await self._read_in_thread()

    async def _read_in_thread(self) -> None:
        changed = self._session.to_read()
        self._uncounted = self._session.uncounted
        self.pace = ThreadPace()
        self._found = await self.in_thread(partial(self._pass, changed, wait=True))

    def _nothing(self) -> Sequence[ReadPartition]:
        self.start_pass()
        return ()

    def _pass(self, changed: Sequence[CachedPartition], *, wait: bool) -> Sequence[ReadPartition]:
        """Read partitions; those that are not there come last, as in Kafka."""
        self.start_pass()
        read: list[ReadPartition] = []
        is_missing = False
        found: dict[TopicKey, Topic] = {}
        for cached in changed:
            asked = cached.asked
            topic = found.get(cached.topic)
            if topic is None or not 0 <= asked.partition < len(topic.partitions):
                searched = cached.find_topic(self.topics)
                if isinstance(searched, ErrorCode):
                    is_missing = True
                    read.append(ReadPartition(cached, None, self.fail(asked.partition, searched), 0))
                    continue
                topic = found[cached.topic] = searched
            cached.name = topic.name
            before = self.size
            data = self.read_partition(wait, topic, asked)
            partition = None if data.error_code else topic.partitions[asked.partition].log
            read.append(ReadPartition(cached, partition, data, self.size - before))
        if is_missing:
            read.sort(key=lambda each: place_of_error(each.data.error_code))
        return read

    def _response(self, news: Sequence[ReadPartition]) -> FetchResponse:
        """Return the response with these partitions of the last pass."""
        responses: list[FetchableTopicResponse] = []
        last: TopicKey | None = None
        for cached, _, data, _ in news:
            topic = cached.topic
            if topic == last:
                responses[-1].partitions.append(data)
            elif isinstance(topic, bytes):
                responses.append(FetchableTopicResponse(topic_id=topic, partitions=[data]))
            else:
                responses.append(FetchableTopicResponse(topic=topic, partitions=[data]))
            last = topic
        return self.sent(
            FetchResponse(session_id=self._session.id, responses=responses, node_endpoints=self.endpoints)
        )


async def _each(make: Callable[[ReadPartition], T], read: Sequence[ReadPartition]) -> Sequence[T]:
    """Return what `make` returns for each; in steps, if they are many."""
    if len(read) <= FEW_ELEMENTS:
        return [*map(make, read)]
    return await run_in_steps(each_in_steps(read, make))
