"""Connectors over each driver with a real broker: each record once, by whichever stream."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import ZooKeeperServer, running_tidelog, running_zookeeper
from tests.plugins.client.connector.three_drivers import RUNNERS, Body, Connectors
from tests.plugins.zookeeper.observer import observing
from tests.tables import for_each
from tidelog.client import BlackList, ClientError, ConsumerConnector, WhiteList
from tidelog.plugins.client import BlockingClient, GroupOffset, NewRecord, NewTopic, TopicPartition, or_raise
from tidelog.plugins.client.errors import ClientClosed

QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 30,
    "fetch_max_wait_ms": 20,
    "max_poll_records": 7,
    "metadata_max_age_ms": 100,
}


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port/chroot` in a ZooKeeper."""
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield f"{server.connect}/kafka"


@pytest.fixture(scope="module")
def broker(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a broker whose groups begin without a delay, which is registered in ZooKeeper."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "zookeeper.connect": zookeeper,
    }
    with running_tidelog(tmp_path_factory.mktemp("tidelog"), settings=settings) as server:
        yield server.bootstrap


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the connectors of a driver."""
    return RUNNERS[request.param]


@pytest.fixture(params=["broker", "zookeeper"])
def options(request: pytest.FixtureRequest, zookeeper: str) -> dict[str, Any]:
    """Options with a group of the test's own, for either way of coordination."""
    options: dict[str, Any] = {**QUICK, "group_id": str(uuid.uuid4()), "coordination": request.param}
    if request.param == "zookeeper":
        options |= {"zookeeper": zookeeper, "rebalance_backoff_ms": 100}
    return options


def by_zookeeper(connect: str) -> dict[str, Any]:
    """Options of a member that is coordinated through ZooKeeper."""
    return {"coordination": "zookeeper", "zookeeper": connect, "rebalance_backoff_ms": 100}


def new_topic(bootstrap: str, partitions: int, name: str = "") -> str:
    name = name or f"t-{uuid.uuid4()}"
    with BlockingClient(bootstrap) as client:
        or_raise(client.create_topics([NewTopic(name, partitions)]))
    return name


def fill(bootstrap: str, topic: str, partitions: int, numbers: range) -> None:
    with BlockingClient(bootstrap) as client:
        for partition in range(partitions):
            records = [NewRecord(b"%d" % number) for number in numbers]
            client.produce(TopicPartition(topic, partition), records)


async def read_until(condition: Callable[[], bool], *streams: Any) -> list[Any]:
    """Read streams in turn; return their records."""
    found: list[Any] = []
    for _ in range(round(DEADLINE_S * 100)):
        for stream in streams:
            while (record := await stream.get(0.01)) is not None:
                found.append(record)
        if condition():
            return found
    raise AssertionError("it has not come to that")


@for_each("strategy", ("range", "cooperative-sticky"))
def test_connectors_return_each_record_once_while_they_join_and_leave(
    run: Callable[[Body], None], broker: str, options: dict[str, Any], strategy: str
) -> None:
    topic = new_topic(broker, 6)
    fill(broker, topic, 6, range(20))
    if options["coordination"] == "zookeeper" and strategy != "range":
        # There the members assign ranges.
        return
    options["partition_assignment_strategy"] = strategy

    async def body(connectors: Connectors) -> None:
        async with connectors(broker, **options) as first:
            streams = first.create_message_streams({topic: 2})[topic]
            found = await read_until(lambda: len(first.assignment()) == 6, *streams)
            assert Counter(first.assignment().values()) == {0: 3, 1: 3}
            second = connectors(broker, **options)
            others = second.create_message_streams({topic: 1})[topic]
            # The brokers' groups divide among members, ZooKeeper's among streams.
            share = 3 if options["coordination"] == "broker" else 2
            found += await read_until(
                lambda: (len(first.assignment()), len(second.assignment())) == (6 - share, share),
                *streams,
                *others,
            )
            assert not first.assignment().keys() & second.assignment().keys()
            assert sorted(Counter(first.assignment().values()).values()) == [(6 - share) // 2, 2]
            fill(broker, topic, 6, range(20, 40))
            for _ in range(30):
                for stream in (*streams, *others):
                    record = await stream.get(0.02)
                    found += [] if record is None else [record]
            await second.shutdown()
            assert await others[0].get(0.01) is None
            found += await read_until(lambda: len(first.assignment()) == 6, *streams)
            while len(found) < 240:
                found += await read_until(lambda: True, *streams)
        assert sorted((each.partition, int(each.value)) for each in found) == [
            (partition, number) for partition in range(6) for number in range(40)
        ]

    run(body)


def test_connectors_continue_where_they_have_committed(
    run: Callable[[Body], None], broker: str, options: dict[str, Any]
) -> None:
    topic = new_topic(broker, 1)
    fill(broker, topic, 1, range(20))

    async def read(connectors: Connectors, count: int, *, commits: bool, **more: Any) -> list[int]:
        found: list[int] = []
        async with connectors(broker, **options, **more) as connector:
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            async for record in stream:
                found.append(record.offset)
                if len(found) == count:
                    break
            if commits:
                await connector.commit_offsets()
        return found

    async def body(connectors: Connectors) -> None:
        by_hand = {"enable_auto_commit": False}
        assert await read(connectors, 5, commits=True, **by_hand) == [0, 1, 2, 3, 4]
        assert await read(connectors, 5, commits=False, **by_hand) == [5, 6, 7, 8, 9]
        assert await read(connectors, 3, commits=False) == [5, 6, 7]
        assert await read(connectors, 2, commits=False) == [8, 9]

    run(body)


def test_connectors_by_filter_read_later_topics_too(
    run: Callable[[Body], None], broker: str, options: dict[str, Any]
) -> None:
    prefix = f"f{uuid.uuid4().hex}"
    new_topic(broker, 2, f"{prefix}-a")
    new_topic(broker, 1, f"{prefix}-c")

    async def body(connectors: Connectors) -> None:
        later = f"{prefix}-{uuid.uuid4().hex}"
        white = WhiteList(f"{prefix}-a, {later}")
        black = BlackList(f"{prefix}-c")
        async with (
            connectors(broker, **{**options, "group_id": f"{uuid.uuid4()}"}) as whites,
            connectors(broker, **{**options, "group_id": f"{uuid.uuid4()}"}) as blacks,
        ):
            white_streams = whites.create_message_streams_by_filter(white, 2)
            black_streams = blacks.create_message_streams_by_filter(black)
            streams = (*white_streams, *black_streams)

            def topics(connector: Any) -> set[str]:
                return {each.topic for each in connector.assignment()}

            await read_until(lambda: len(whites.assignment()) == 2, *streams)
            await read_until(lambda: f"{prefix}-a" in topics(blacks), *streams)
            new_topic(broker, 2, later)
            fill(broker, later, 2, range(5))
            await read_until(lambda: topics(whites) == {f"{prefix}-a", later}, *streams)
            await read_until(lambda: later in topics(blacks), *streams)
            assert f"{prefix}-c" not in topics(blacks)
            shares = Counter(whites.assignment().values())
            assert shares == {0: 2, 1: 2}

    run(body)


def test_connectors_end_an_iteration_after_the_consumer_timeout(
    run: Callable[[Body], None], broker: str, options: dict[str, Any]
) -> None:
    topic = new_topic(broker, 1)
    fill(broker, topic, 1, range(3))

    async def body(connectors: Connectors) -> None:
        async with connectors(broker, consumer_timeout_ms=1000, **options) as connector:
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            assert [record.offset async for record in stream] == [0, 1, 2]
            fill(broker, topic, 1, range(1))
            assert [record.offset async for record in stream] == [3]
            await connector.shutdown()
            assert [record.offset async for record in stream] == []
            with pytest.raises(ClientClosed, match="was shut down"):
                await connector.commit_offsets()

    run(body)


def test_connectors_say_what_they_are_not_for(run: Callable[[Body], None], broker: str) -> None:
    async def body(connectors: Connectors) -> None:
        with pytest.raises(ValueError, match="group_id is None, and has to be"):
            connectors(broker)
        with pytest.raises(ValueError, match="coordination"):
            connectors(broker, group_id="g", coordination="paper")
        with pytest.raises(ValueError, match="consumer_timeout_ms is -1"):
            connectors(broker, group_id="g", consumer_timeout_ms=-1)
        async with connectors(broker, group_id="g") as connector:
            for wrong in ({}, {"t": 0}):
                with pytest.raises(ValueError, match=r"at least one stream|no topic"):
                    connector.create_message_streams(wrong)
            connector.create_message_streams({"t": 1})
            with pytest.raises(ValueError, match="created at once"):
                connector.create_message_streams({"t": 1})
        with pytest.raises(ValueError, match="is no list of topics"):
            WhiteList("(")

    run(body)


def test_shutdown_ends_an_iteration_in_another_thread(broker: str, options: dict[str, Any]) -> None:
    topic = new_topic(broker, 2)
    fill(broker, topic, 2, range(10))
    connector = ConsumerConnector(broker, **options)
    streams = connector.create_message_streams({topic: 2})[topic]
    found: list[list[int]] = [[], []]

    def read(number: int) -> None:
        found[number] += [record.offset for record in streams[number]]

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    everything = threading.Event()
    for _ in range(round(DEADLINE_S * 100)):
        if sum(map(len, found)) == 0 and everything.wait(0.01):
            break
        if len(connector.assignment()) == 2 and not everything.wait(0.01):
            break
    connector.shutdown()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_an_error_of_a_partition_is_raised_by_its_stream(broker: str, options: dict[str, Any]) -> None:
    topic = new_topic(broker, 2)
    fill(broker, topic, 2, range(1))

    def decode(value: bytes) -> bytes:
        raise LookupError(value)

    with ConsumerConnector(broker, value_decoder=decode, **options) as connector:
        streams = connector.create_message_streams({topic: 2})[topic]
        for stream in streams:
            for _ in range(2):
                with pytest.raises(ClientError, match="LookupError"):
                    stream.get(DEADLINE_S)


@for_each(
    ("storage", "dual", "in_zookeeper", "in_brokers"),
    [("zookeeper", None, 5, -1), ("kafka", None, 5, 5), ("kafka", True, 5, 5), ("kafka", False, None, 5)],
)
def test_connectors_commit_where_they_are_told_to(
    broker: str, zookeeper: str, storage: str, dual: bool | None, in_zookeeper: int | None, in_brokers: int
) -> None:
    topic, group = new_topic(broker, 1), str(uuid.uuid4())
    fill(broker, topic, 1, range(20))
    options: dict[str, Any] = {
        **QUICK,
        "group_id": group,
        "coordination": "zookeeper",
        "zookeeper": zookeeper,
    }
    options |= {"offsets_storage": storage, "dual_commit_enabled": dual}
    with ConsumerConnector(broker, **options) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for _ in range(5):
            stream.get(DEADLINE_S)
        connector.commit_offsets()
        with observing(zookeeper) as observer:
            path = f"/consumers/{group}/offsets/{topic}/0"
            there = observer.get(path)[0] if observer.exists(path) else None
    assert there == (None if in_zookeeper is None else b"%d" % in_zookeeper)
    with BlockingClient(broker) as client:
        found = client.committed_offsets(group, [TopicPartition(topic, 0)])
        assert found[TopicPartition(topic, 0)].offset == in_brokers


@for_each(("in_zookeeper", "in_brokers"), [(7, 3), (3, 7), (7, -1), (-1, 7)])
def test_connectors_that_move_their_offsets_begin_at_the_larger_one(
    broker: str, zookeeper: str, in_zookeeper: int, in_brokers: int
) -> None:
    topic, group = new_topic(broker, 1), str(uuid.uuid4())
    fill(broker, topic, 1, range(20))
    if in_zookeeper >= 0:
        with observing(zookeeper) as observer:
            observer.create(f"/consumers/{group}/offsets/{topic}/0", b"%d" % in_zookeeper, makepath=True)
    if in_brokers >= 0:
        with BlockingClient(broker) as client:
            or_raise(client.commit_offsets(group, {TopicPartition(topic, 0): GroupOffset(in_brokers)}))
    options: dict[str, Any] = {
        **QUICK,
        "group_id": group,
        "coordination": "zookeeper",
        "zookeeper": zookeeper,
    }
    with ConsumerConnector(broker, offsets_storage="kafka", **options) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        record = stream.get(DEADLINE_S)
        assert record is not None
        assert record.offset == 7


def test_connectors_reset_an_offset_that_is_ahead_of_the_log(broker: str, zookeeper: str) -> None:
    topic, group = new_topic(broker, 1), str(uuid.uuid4())
    fill(broker, topic, 1, range(3))
    with observing(zookeeper) as observer:
        observer.create(f"/consumers/{group}/offsets/{topic}/0", b"1000", makepath=True)
    options: dict[str, Any] = {
        **QUICK,
        "group_id": group,
        "coordination": "zookeeper",
        "zookeeper": zookeeper,
    }
    with ConsumerConnector(broker, **options) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        record = stream.get(DEADLINE_S)
        assert record is not None
        assert record.offset == 0


def test_connectors_wait_for_a_zookeeper_that_is_gone_at_the_start(
    run: Callable[[Body], None], broker: str, tmp_path: Path
) -> None:
    topic = new_topic(broker, 1)
    fill(broker, topic, 1, range(3))
    server = ZooKeeperServer(tmp_path / "zookeeper")

    async def body(connectors: Connectors) -> None:
        options: dict[str, Any] = {**QUICK, "group_id": str(uuid.uuid4()), "coordination": "zookeeper"}
        async with connectors(broker, zookeeper=server.connect, **options) as connector:
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            assert await stream.get(0.1) is None
            server.start()
            with observing(server.connect) as observer:
                observer.create("/brokers/ids/1", b"{}", makepath=True)
                observer.create(f"/brokers/topics/{topic}", b'{"partitions":{"0":[1]}}', makepath=True)
            record = await stream.get(DEADLINE_S)
            assert record is not None
            assert record.offset == 0
            # And it ends without one, too.
            server.kill()

    run(body)
