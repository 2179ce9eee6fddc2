"""After whatever happens, a session's client knows of its partitions what full fetches return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchRequest, FetchTopic, PartitionData

from .client import Client
from .sessions import SessionClient
from .test_fetch import fetch, parts_of, records_of

PARTITIONS = 3
WAIT_MS = 100

partitions = st.integers(0, PARTITIONS - 1)
offsets = st.integers(0, 4)
operations = st.one_of(
    st.tuples(st.sampled_from(["append", "begin", "commit", "abort", "trim", "forget"]), partitions),
    st.tuples(st.just("seek"), partitions, offsets),
    st.tuples(st.just("read on"), partitions),
    st.tuples(st.sampled_from(["delete", "create", "evict", "repeat", "other isolation"])),
)


class View(NamedTuple):
    """What a client knows of a partition: whether it has an error, its offsets, and records to take."""

    failed: bool
    high_watermark: int
    log_start_offset: int
    records: bytes


def view_of(part: PartitionData) -> View:
    """What an answer says of a partition."""
    offsets = (part.high_watermark, part.log_start_offset)
    return View(bool(part.error_code), *offsets, records_of(part))


class World:
    """A broker with one topic at most, and a client with a session."""

    def __init__(self, broker: Broker, version: int) -> None:
        self.broker = broker
        self.client = Client(broker)
        self.version = version
        self.isolation = Isolation.READ_UNCOMMITTED
        self.asked: dict[int, int] = {}
        self.views: dict[int, View] = {}
        self.producers = 0
        self.open_in: dict[int, int] = {}

    async def start(self) -> None:
        """Create the topic, and open the session with one partition."""
        self.topic: Topic = await self.broker.topics.create(TopicSpec("t", PARTITIONS))
        self.exists = True
        await self.open({0: 0})

    async def open(self, asked: dict[int, int]) -> None:
        """Open a session."""
        self.session = SessionClient(self.client, self.topic, self.version)
        self.asked = asked
        answer = await self.session.ask(asked, isolation_level=int(self.isolation))
        assert self.session.session_id
        self.views = {part.partition_index: view_of(part) for part in parts_of(answer)}

    async def do(self, kind: str, *arguments: int) -> None:
        """Let something happen, then fetch, and compare."""
        changed, forgotten = await self._happen(kind, *arguments)
        await self.fetch(changed, forgotten)
        await self.compare()

    async def do_while_waiting(self, kind: str, *arguments: int) -> None:
        """Let something happen while a request waits: it is woken if a full fetch finds anything."""
        if kind not in ("append", "begin", "commit", "abort", "trim", "delete"):
            await self.do(kind, *arguments)
            return
        answers_at_once = self.has_something()
        began = trio.current_time()
        step = self.session.start(max_wait_ms=WAIT_MS, isolation_level=int(self.isolation))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(self._happen, kind, *arguments))
            self.take(await self.session.finish(step))
        waited_ms = round(1000 * (trio.current_time() - began))
        await self.fetch({}, [])
        await self.compare()
        answers_at_once = answers_at_once or self.has_something()
        assert waited_ms == (0 if answers_at_once else WAIT_MS)

    def has_something(self) -> bool:
        """Whether a request has no reason to wait: there are records to take, or an error."""
        return any(view.failed or view.records for view in self.views.values())

    async def fetch(self, changed: dict[int, int], forgotten: list[int]) -> None:
        """Send the next request of the session, or open another one if it is not there any more."""
        self.asked |= changed
        for index in forgotten:
            self.asked.pop(index, None)
            self.views.pop(index, None)
        answer = await self.session.ask(changed, forgotten, isolation_level=int(self.isolation))
        if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            assert self.client.fetch_sessions.get(self.session.session_id) is None
            await self.open(self.asked or {0: 0})
        elif not self.asked:
            assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
            await self.open({0: 0})
        else:
            self.take(answer)

    def take(self, answer: Any) -> None:
        """Update what the client knows."""
        assert (answer.error_code, answer.session_id) == (0, self.session.session_id)
        # What was not taken is asked for again, and comes again.
        self.views = {index: view._replace(records=b"") for index, view in self.views.items()}
        self.views |= {part.partition_index: view_of(part) for part in parts_of(answer)}

    async def compare(self) -> None:
        """Assert that a full fetch says what the client knows."""
        request = fetch(self.topic, self.asked, isolation_level=int(self.isolation))
        answer = await self.client.ask(FETCH, self.version, request)
        assert self.views == {part.partition_index: view_of(part) for part in parts_of(answer)}

    async def _happen(self, kind: str, *arguments: int) -> tuple[dict[int, int], list[int]]:
        """Let something happen; return which offsets the client asks for, and what it forgets."""
        if kind == "seek":
            return {arguments[0]: arguments[1]}, []
        if kind == "forget":
            return {}, [arguments[0]]
        if kind == "read on":
            return self._read_on(arguments[0]), []
        if arguments:
            if self.exists:
                self._write(kind, arguments[0])
            return {}, []
        await self._change(kind)
        return {}, []

    def _read_on(self, index: int) -> dict[int, int]:
        end = self.topic.partitions[index].log.readable_end(self.isolation)
        return {index: end}

    def _write(self, kind: str, index: int) -> None:
        part = self.topic.partitions[index]
        if kind == "append":
            part.log.append_nowait(make_batch([b"value"]))
        elif kind == "trim":
            part.log.delete_records_before(part.log.high_watermark)
        elif kind == "begin" and index not in self.open_in:
            self.producers += 1
            self.open_in[index] = self.producers
            batch = make_batch(
                [b"undecided"],
                producer_id=self.producers,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            part.log.append_nowait(batch, in_transaction=True)
        elif kind in ("commit", "abort") and index in self.open_in:
            part.log.append_marker(self.open_in.pop(index), 0, 0, commit=kind == "commit")

    async def _change(self, kind: str) -> None:
        if kind == "delete" and self.exists:
            await self.broker.topics.delete("t")
            self.exists = False
            self.open_in.clear()
        elif kind == "create" and not self.exists:
            self.topic = await self.broker.topics.create(TopicSpec("t", PARTITIONS))
            self.exists = True
            if self.version >= 13:
                # The client names the new id only after it has forgotten the old one.
                self.client.fetch_sessions.remove(self.session.session_id)
        elif kind == "evict":
            self.client.fetch_sessions.remove(self.session.session_id)
        elif kind == "repeat":
            await self._repeat()
        elif kind == "other isolation":
            self.isolation = Isolation(1 - self.isolation)

    async def _repeat(self) -> None:
        """Send a request again that was answered: it is refused, and changes nothing."""
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=self.session.session_id,
            session_epoch=self.session.epoch - 1 or 2,
            topics=[FetchTopic(topic="t", topic_id=self.topic.topic_id.bytes, partitions=[])],
        )
        answer = await self.client.ask(FETCH, self.version, request)
        assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert answer.responses == []


def run(do: Callable[[World], Callable[..., Any]], version: int, steps: list[tuple[Any, ...]]) -> None:
    """Take steps in a world of their own; in the end no log is watched."""

    async def main() -> None:
        async with running_broker() as broker:
            world = World(broker, version)
            await world.start()
            for step in steps:
                await do(world)(*step)
            watched = [*world.topic.partitions]
            world.client.fetch_sessions.remove(world.session.session_id)
            assert not any(partition.log.watermarks.watchers for partition in watched)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@given(st.sampled_from([7, 12, 13, 17]), st.lists(operations, max_size=20))
@settings(max_examples=150, deadline=None)
def test_fetch_session_says_what_full_fetches_say(version: int, steps: list[tuple[Any, ...]]) -> None:
    run(lambda world: world.do, version, steps)


@given(st.sampled_from([12, 17]), st.lists(operations, max_size=12))
@settings(max_examples=100, deadline=None)
def test_fetch_session_that_waits_says_what_full_fetches_say(
    version: int, steps: list[tuple[Any, ...]]
) -> None:
    run(lambda world: world.do_while_waiting, version, steps)
