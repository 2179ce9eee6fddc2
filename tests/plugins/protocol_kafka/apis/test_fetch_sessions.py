"""Fetch sessions: what is read and waited for, and what happens to a session meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.broker import Broker
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.storage import LogSlice
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.fetch_session_cache import MAX_SESSION_PARTITIONS, PARTITIONS_PER_SLOT
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchReplicaState

from .client import Client, versions_of
from .sessions import SessionClient
from .test_fetch import (
    BATCH,
    PLENTY,
    Stopwatch,
    be_patient_with_threads,
    fetch,
    make_slow,
    offsets_of,
    parts_of,
    produced_after,
)
from .topics import fill, new_topic

SESSIONS_SINCE = 7
STATE_SINCE = 15
LONG_MS = 60_000
COMMITTED = int(Isolation.READ_COMMITTED)


async def opened(
    client: Client, broker: Broker, partitions: int = 3, version: int = 17, **fields: Any
) -> SessionClient:
    """A session at the end of all partitions of a topic with one record in each, which the client knows."""
    topic = await new_topic(broker, partitions=partitions)
    for index in range(partitions):
        fill(topic, index, [1])
    session = SessionClient(client, topic, version)
    await session.ask(dict.fromkeys(range(partitions), 1), **fields)
    assert session.session_id
    assert await session.news(**fields) == {}
    return session


def watchers_of(topic: Topic) -> int:
    """How often sessions watch the partitions of a topic."""
    return sum(len(partition.log.watermarks.watchers or ()) for partition in topic.partitions)


def reads_of(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of partitions that are read from now on."""
    reads: list[int] = []
    read = UnifiedLog.read

    def note(partition: UnifiedLog, *args: Any, **options: Any) -> LogSlice:
        if any(partition is each.log for each in topic.partitions):
            reads.append(partition.topic_partition.partition)
        return read(partition, *args, **options)

    monkeypatch.setattr(UnifiedLog, "read", note)
    return reads


@pytest.mark.parametrize("version", versions_of(FETCH, SESSIONS_SINCE))
async def test_fetch_session_has_only_what_changed(client: Client, broker: Broker, version: int) -> None:
    session = await opened(client, broker, version=version)
    fill(session.topic, 1, [2])
    for _ in range(2):  # as long as the client does not ask for what follows
        news = await session.news()
        assert [*news] == [1]
        assert offsets_of(news[1]) == [1, 2]
    assert await session.news({1: 3}) == {}


async def test_fetch_session_reads_no_partition_that_has_not_changed(
    autojump_clock: MockClock, client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(client, broker, partitions=100)
    reads = reads_of(session.topic, monkeypatch)
    for _ in range(3):
        assert await session.news(max_wait_ms=500) == {}
    assert reads == []
    fill(session.topic, 70, [1])
    assert [*await session.news({70: 1})] == [70]
    assert reads == [70]


async def test_fetch_session_does_not_count_appends_between_requests(client: Client, broker: Broker) -> None:
    """Of very many appends only the first one notifies the session."""
    session = await opened(client, broker)
    assert watchers_of(session.topic) == 3
    fill(session.topic, 0, [1, 1, 1])
    assert watchers_of(session.topic) == 2
    assert await session.news({0: 4}) != {}
    assert watchers_of(session.topic) == 3


async def test_fetch_session_takes_turns(client: Client, broker: Broker) -> None:
    """Each partition comes first at times, however little fits into a response."""
    session = SessionClient(client, await new_topic(broker, partitions=3))
    for index in range(3):
        fill(session.topic, index, [1])
    await session.ask({2: 0, 0: 0, 1: 0}, max_bytes=1)
    assert [[*await session.news(max_bytes=1)] for _ in range(6)] == [[2], [0], [1]] * 2


# Waiting


async def test_fetch_session_waits_for_max_wait_ms(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)
    watch = Stopwatch()
    assert await session.news(max_wait_ms=500) == {}
    assert watch.ms() == 500


@pytest.mark.parametrize(
    ("delays_ms", "min_bytes", "waited", "found"),
    [
        ([200], 1, 200, [1]),
        ([100, 100, 100], 3 * BATCH, 300, [1, 2, 3]),
        ([100, 100], 3 * BATCH, 1000, [1, 2]),
        ([], 0, 0, None),
    ],
)
async def test_fetch_session_waits_for_min_bytes(
    autojump_clock: MockClock,
    client: Client,
    broker: Broker,
    delays_ms: list[int],
    min_bytes: int,
    waited: int,
    found: list[int] | None,
) -> None:
    session = await opened(client, broker)
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, session.topic, delays_ms, 1)
        news = await session.news(max_wait_ms=1000, min_bytes=min_bytes)
        assert watch.ms() == waited
    assert {index: offsets_of(part) for index, part in news.items()} == ({1: found} if found else {})


async def test_fetch_session_counts_what_is_there_and_what_comes(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)
    fill(session.topic, 0, [1])
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, session.topic, [100, 100], 0)
        nursery.start_soon(produced_after, session.topic, [150], 2)
        news = await session.news(max_wait_ms=LONG_MS, min_bytes=4 * BATCH)
    assert watch.ms() == 200
    assert {index: offsets_of(part) for index, part in news.items()} == {0: [1, 2, 3], 2: [1]}


async def test_fetch_session_sees_an_append_between_reading_and_waiting(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)
    step = session.start(max_wait_ms=LONG_MS)
    fill(session.topic, 0, [1])
    watch = Stopwatch()
    answer = await session.finish(step)
    assert watch.ms() == 0
    assert [offsets_of(part) for part in parts_of(answer)] == [[1]]


@pytest.mark.parametrize("few", [True, False])
async def test_fetch_session_sees_an_append_during_a_read_in_a_thread(
    autojump_clock: MockClock, client: Client, broker: Broker, few: bool
) -> None:
    session = await opened(client, broker, partitions=3 if few else 1100)
    topic = session.topic
    fill(topic, 0, [1])
    make_slow(topic)
    store = topic.partitions[0].log.store
    read, appends = store.read_batches, [2, 1]

    def read_and_append(offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        found = read(offset, max_bytes, limit_offset, wait=wait)
        if appends:
            trio.from_thread.run_sync(fill, topic, appends.pop(), [1])
        return found

    store.read_batches = read_and_append  # type: ignore[method-assign]
    be_patient_with_threads(autojump_clock)
    watch = Stopwatch()
    offsets = {0: 1} if few else dict.fromkeys(range(1100), 1)
    news = await session.news(offsets, max_wait_ms=LONG_MS, min_bytes=3 * BATCH)
    assert {index: offsets_of(part) for index, part in news.items()} == {0: [1], 1: [1], 2: [1]}
    assert watch.ms() == 0


async def test_fetch_session_of_committed_records_waits_for_the_end_of_a_transaction(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker, isolation_level=COMMITTED)
    partition = session.topic.partitions[0]
    batch = make_batch([b"v"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    watch = Stopwatch()

    async def write() -> None:
        await trio.sleep(0.1)
        partition.log.append_nowait(batch, in_transaction=True)
        await trio.sleep(0.2)
        partition.log.append_marker(1, 0, 0, commit=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        news = await session.news(max_wait_ms=LONG_MS, isolation_level=COMMITTED)
    assert watch.ms() == 300
    assert (offsets_of(news[0])[0], news[0].last_stable_offset, news[0].high_watermark) == (1, 3, 3)


async def test_fetch_session_of_committed_records_reports_a_high_watermark(
    client: Client, broker: Broker
) -> None:
    session = await opened(client, broker, isolation_level=COMMITTED)
    batch = make_batch([b"v"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    session.topic.partitions[0].log.append_nowait(batch, in_transaction=True)
    news = await session.news(isolation_level=COMMITTED)
    assert [(part.last_stable_offset, part.high_watermark) for part in news.values()] == [(1, 2)]
    assert await session.news(isolation_level=COMMITTED) == {}
    # Another isolation level is another question.
    assert offsets_of((await session.news())[0]) == [1]


async def test_fetch_session_reports_a_log_start_without_waking_for_it(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)
    step = session.start(max_wait_ms=500)
    session.topic.partitions[2].log.delete_records_before(1)
    watch = Stopwatch()
    answer = await session.finish(step)
    assert watch.ms() == 500
    assert [(part.partition_index, part.log_start_offset) for part in parts_of(answer)] == [(2, 1)]


async def test_fetch_session_checks_the_leader_epoch(client: Client, broker: Broker) -> None:
    session = await opened(client, broker)
    assert await session.news({0: 1}, current_leader_epoch=0) == {}
    session.topic.partitions[0].log.leader_epoch = 4
    for _ in range(2):
        assert [part.error_code for part in (await session.news()).values()] == [
            ErrorCode.FENCED_LEADER_EPOCH
        ]
    # When the error is gone the client learns the offsets again.
    assert [part.high_watermark for part in (await session.news({0: 1})).values()] == [1]
    assert await session.news() == {}


@pytest.mark.parametrize(("version", "gone", "again"), [(12, 3, 0), (13, 3, 103)])
async def test_fetch_session_is_woken_when_a_topic_is_deleted(
    autojump_clock: MockClock, client: Client, broker: Broker, version: int, gone: int, again: int
) -> None:
    session = await opened(client, broker, partitions=1, version=version)
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.topics.delete, session.topic.name)
        news = await session.news(max_wait_ms=LONG_MS)
    assert watch.ms() == 0
    assert [part.error_code for part in news.values()] == [gone]
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    news = await session.news()
    assert [(part.error_code, part.high_watermark) for part in news.values()] == [
        (again, 1 if not again else -1)
    ]


async def stop_waiting(broker: Broker) -> None:
    await trio.sleep(0.1)
    broker.topics.wake_all_waiters()


async def test_fetch_session_ends_its_wait_when_the_broker_stops(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_waiting, broker)
        assert await session.news(max_wait_ms=LONG_MS) == {}
    assert watch.ms() == 100
    assert await session.news(max_wait_ms=LONG_MS) == {}
    assert watch.ms() == 100


# The session meanwhile


async def test_fetch_session_supersedes_a_request_that_waits(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    first = await opened(client, broker)
    second = SessionClient(Client(broker, fetch_sessions=client.fetch_sessions), first.topic)
    second.session_id, second.epoch = first.session_id, first.epoch + 1
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await first.ask(max_wait_ms=LONG_MS))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        step = second.start(max_wait_ms=LONG_MS)
        await wait_all_tasks_blocked()
        (superseded,) = answers
        fill(first.topic, 2, [1])
        answer = await second.finish(step)
    assert superseded.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (superseded.session_id, superseded.responses) == (first.session_id, [])
    assert [offsets_of(part) for part in parts_of(answer)] == [[1]]


async def test_fetch_session_continues_after_a_client_that_left(client: Client, broker: Broker) -> None:
    session = await opened(client, broker)
    fill(session.topic, 0, [1])
    step = session.start(max_wait_ms=LONG_MS, min_bytes=PLENTY)
    assert not isinstance(step, list)
    with trio.CancelScope() as leaving:
        leaving.cancel()
        await step
    assert [offsets_of(part) for part in (await session.news()).values()] == [[1]]


async def test_fetch_session_that_is_evicted_while_a_request_waits_still_answers_it(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)

    async def evict() -> None:
        await trio.sleep(0.1)
        client.fetch_sessions.remove(session.session_id)
        assert watchers_of(session.topic) == 3
        fill(session.topic, 0, [1])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(evict)
        assert [*await session.news(max_wait_ms=LONG_MS)] == [0]
    assert watchers_of(session.topic) == 0
    answer = await session.ask()
    assert (answer.error_code, answer.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


async def test_fetch_session_that_is_closed_watches_no_log(client: Client, broker: Broker) -> None:
    session = await opened(client, broker)
    assert watchers_of(session.topic) == 3
    assert await session.news(forgotten=[1]) == {}
    assert watchers_of(session.topic) == 2
    answer = await session.ask(forgotten=[0, 2])
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    assert watchers_of(session.topic) == len(client.fetch_sessions) == client.fetch_sessions.partitions == 0


@pytest.mark.parametrize("version", [14, 15])
async def test_fetch_session_of_a_follower_is_privileged(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    request = fetch(topic, {0: 0}, session=(0, 0))
    if version < STATE_SINCE:
        request.replica_id = 1
    else:
        request.replica_state = FetchReplicaState(replica_id=1)
    answer = await client.ask(FETCH, version, request)
    session = client.fetch_sessions.get(answer.session_id)
    assert session is not None
    assert session.privileged


async def test_fetch_session_refuses_an_unknown_isolation_level_before_it_changes(
    client: Client, broker: Broker
) -> None:
    session = await opened(client, broker)
    with pytest.raises(ProtocolViolation):
        client.start(FETCH, 17, session.request({0: 0}, isolation_level=9))
    assert await session.news() == {}


# Limits


@pytest.fixture
async def few_slots() -> AsyncGenerator[Broker]:
    """A broker that has a place for two sessions."""
    async with running_broker({"max.incremental.fetch.session.cache.slots": 2}) as broker:
        yield broker


async def test_fetch_session_needs_a_slot(few_slots: Broker) -> None:
    topic = await new_topic(few_slots)
    client = Client(few_slots)
    sessions = [SessionClient(client, topic) for _ in range(3)]
    answers = [await session.ask({0: 0}) for session in sessions]
    assert [bool(answer.session_id) for answer in answers] == [True, True, False]
    assert [answer.error_code for answer in answers] == [0, 0, 0]


async def test_fetch_session_may_not_grow_beyond_its_share_of_memory(few_slots: Broker) -> None:
    topic = await new_topic(few_slots)
    client = Client(few_slots)
    session = SessionClient(client, topic)
    await session.ask({0: 0})
    most = 2 * PARTITIONS_PER_SLOT
    assert len(await session.news(dict.fromkeys(range(1, most), 0))) == most - 1
    answer = await session.ask({most: 0})
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    assert len(client.fetch_sessions) == client.fetch_sessions.partitions == 0
    assert (await SessionClient(client, topic).ask(dict.fromkeys(range(most + 1), 0))).session_id == 0


async def test_fetch_session_of_very_many_partitions(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    """They are read in a thread, and a session has a limit."""
    be_patient_with_threads(autojump_clock)
    topic = await new_topic(broker, partitions=2000)
    session = SessionClient(client, topic)
    assert (await session.ask(dict.fromkeys(range(2000), 0))).session_id
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, topic, [200], 1999)
        news = await session.news(dict.fromkeys(range(2000), 0), max_wait_ms=LONG_MS)
    assert watch.ms() == 200
    assert [*news] == [1999]
    for index in range(2000):
        fill(topic, index, [1])
    assert len(await session.news({1999: 2}, max_wait_ms=LONG_MS)) == 2000
    too_many = dict.fromkeys(range(MAX_SESSION_PARTITIONS + 1), 0)
    assert (await SessionClient(client, topic).ask(too_many)).session_id == 0
