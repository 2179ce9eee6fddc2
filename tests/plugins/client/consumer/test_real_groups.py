"""Groups over each driver, and shared with other clients: each record once, whoever joins and leaves."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import running_tidelog
from tests.plugins.client.consumer.three_drivers import RUNNERS, Body, Consumers
from tests.tables import for_each
from tidelog.client import Consumer, RebalanceListener, TopicPartition
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, or_raise
from tidelog.plugins.client.errors import NotAssigned

READING: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20, "max_poll_records": 7}
QUICK: dict[str, Any] = {**READING, "heartbeat_interval_ms": 30}
CONSUMER: dict[str, Any] = {**READING, "group_protocol": "consumer"}
KINDS: dict[str, dict[str, Any]] = {
    **{
        strategy: {**QUICK, "partition_assignment_strategy": strategy}
        for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky")
    },
    "consumer": CONSUMER,
    "consumer-range": {**CONSUMER, "group_remote_assignor": "range"},
}
PROTOCOLS = {"classic": QUICK, "consumer": CONSUMER}
QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "30",
    "group.consumer.heartbeat.interval.ms": "30",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def quick_tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a broker whose groups begin without a delay."""
    with running_tidelog(tmp_path_factory.mktemp("tidelog"), settings=QUICK_GROUPS) as server:
        yield server.bootstrap


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the consumers of a driver."""
    return RUNNERS[request.param]


def new_topic(bootstrap: str, partitions: int, name: str = "") -> str:
    name = name or f"t-{uuid.uuid4()}"
    with BlockingClient(bootstrap) as client:
        or_raise(client.create_topics([NewTopic(name, partitions)]))
    return name


def fill(bootstrap: str, topic: str, partitions: int, start: int, count: int) -> None:
    with BlockingClient(bootstrap) as client:
        for partition in range(partitions):
            records = [NewRecord(b"%d" % number) for number in range(start, start + count)]
            client.produce(TopicPartition(topic, partition), records)


class Calls(RebalanceListener):
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(each.partition for each in partitions)))

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(each.partition for each in partitions)))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(each.partition for each in partitions)))


async def poll_until(condition: Callable[[], bool], *consumers: Any) -> list[Any]:
    """Poll consumers in turn; return their records."""
    found: list[Any] = []
    for _ in range(round(DEADLINE_S * 100)):
        for consumer in consumers:
            found += await consumer.poll(0.01)
        if condition():
            return found
    raise AssertionError("it has not come to that")


@for_each("kind", KINDS)
def test_each_record_once_while_members_join_and_leave(
    run: Callable[[Body], None], quick_tidelog: str, kind: str
) -> None:
    topic = new_topic(quick_tidelog, 6)
    fill(quick_tidelog, topic, 6, 0, 20)

    async def body(consumers: Consumers) -> None:
        group = str(uuid.uuid4())
        options = {**KINDS[kind], "group_id": group}
        found: list[Any] = []
        async with consumers.consumer(quick_tidelog, **options) as first:
            first.subscribe([topic])
            assert first.subscription() == {topic}
            found += await poll_until(lambda: len(first.assignment()) == 6 and len(found) >= 0, first)
            second = consumers.consumer(quick_tidelog, **options)
            second.subscribe([topic])
            found += await poll_until(
                lambda: len(first.assignment()) == len(second.assignment()) == 3, first, second
            )
            assert not first.assignment() & second.assignment()
            fill(quick_tidelog, topic, 6, 20, 20)
            for _ in range(5):
                found += await first.poll(0.05) + await second.poll(0.05)
            await second.close()
            found += await poll_until(lambda: len(first.assignment()) == 6, first)
            while len(found) < 240:
                more = await first.poll(DEADLINE_S)
                assert more
                found += more
            assert await first.poll(0.1) == []
        assert sorted((each.partition, int(each.value)) for each in found) == [
            (partition, number) for partition in range(6) for number in range(40)
        ]

    run(body)


@for_each("kind", ("range", "cooperative-sticky", "consumer", "consumer-range"))
def test_members_of_a_group_of_apache_kafka(shared_kafka: str, kind: str) -> None:
    topic = new_topic(shared_kafka, 4)
    fill(shared_kafka, topic, 4, 0, 30)

    async def body(consumers: Consumers) -> None:
        options = {**KINDS[kind], "group_id": str(uuid.uuid4())}
        async with (
            consumers.consumer(shared_kafka, **options) as first,
            consumers.consumer(shared_kafka, **options) as second,
        ):
            first.subscribe([topic])
            second.subscribe([topic])
            found = await poll_until(
                lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second
            )
            while len(found) < 120:
                found += await poll_until(lambda: True, first, second)
        assert sorted((each.partition, int(each.value)) for each in found) == [
            (partition, number) for partition in range(4) for number in range(30)
        ]

    RUNNERS["threads"](body)


@for_each("protocol", PROTOCOLS)
def test_listeners_are_called_in_order_and_may_seek(
    run: Callable[[Body], None], quick_tidelog: str, protocol: str
) -> None:
    topic = new_topic(quick_tidelog, 2)
    fill(quick_tidelog, topic, 2, 0, 10)

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(
            quick_tidelog, group_id=str(uuid.uuid4()), **PROTOCOLS[protocol]
        ) as consumer:

            class Seeking(Calls):
                def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
                    super().on_assigned(partitions)
                    for each in partitions:
                        consumer.seek(each, 8)

            listener = Seeking()
            consumer.subscribe([topic], listener=listener)
            found: list[Any] = []
            while len(found) < 4:
                found += await consumer.poll(DEADLINE_S)
            assert sorted((each.partition, each.offset) for each in found) == [
                (0, 8), (0, 9), (1, 8), (1, 9),
            ]  # fmt: skip
            with pytest.raises(ValueError, match="has a subscription"):
                consumer.assign([])
            await consumer.unsubscribe()
            assert listener.calls == [("assigned", [0, 1]), ("revoked", [0, 1])]
            assert consumer.assignment() == set()
            consumer.assign([TopicPartition(topic, 0)])
            with pytest.raises(ValueError, match="assigned by hand"):
                consumer.subscribe([topic])
        async with consumers.consumer(quick_tidelog) as consumer:
            with pytest.raises(NotAssigned, match="without group_id"):
                consumer.subscribe([topic])

    run(body)


@for_each("protocol", PROTOCOLS)
def test_what_a_listener_raises_poll_raises(
    run: Callable[[Body], None], quick_tidelog: str, protocol: str
) -> None:
    topic = new_topic(quick_tidelog, 1)
    fill(quick_tidelog, topic, 1, 0, 1)

    class Failing(RebalanceListener):
        def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise LookupError("no place for it")

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(
            quick_tidelog, group_id=str(uuid.uuid4()), **PROTOCOLS[protocol]
        ) as consumer:
            consumer.subscribe([topic], listener=Failing())
            with pytest.raises(LookupError, match="no place"):
                await consumer.poll(DEADLINE_S)
            assert [each.offset for each in await consumer.poll(DEADLINE_S)] == [0]

    run(body)


@for_each("protocol", PROTOCOLS)
def test_topics_that_match_a_pattern_join_later(
    run: Callable[[Body], None], quick_tidelog: str, protocol: str
) -> None:
    prefix = f"p{uuid.uuid4().hex}"
    first = new_topic(quick_tidelog, 1, f"{prefix}-1")
    new_topic(quick_tidelog, 1, f"x{prefix}-1")

    async def body(consumers: Consumers) -> None:
        second = f"{prefix}-{uuid.uuid4().hex}"
        options = {**PROTOCOLS[protocol], "group_id": str(uuid.uuid4()), "metadata_max_age_ms": 100}
        async with consumers.consumer(quick_tidelog, **options) as consumer:
            consumer.subscribe(pattern=f"{prefix}-1|{second}")
            await poll_until(lambda: bool(consumer.assignment()), consumer)
            assert consumer.assignment() == {TopicPartition(first, 0)}
            new_topic(quick_tidelog, 2, second)
            await poll_until(lambda: len(consumer.assignment()) == 3, consumer)
            assert consumer.subscription() == {first, second}
            with pytest.raises(ValueError, match="no regular expression"):
                consumer.subscribe(pattern="(")

    run(body)


@for_each("protocol", PROTOCOLS)
def test_static_members_keep_their_partitions_over_a_restart(
    run: Callable[[Body], None], quick_tidelog: str, protocol: str
) -> None:
    topic = new_topic(quick_tidelog, 4)

    async def body(consumers: Consumers) -> None:
        options = {**PROTOCOLS[protocol], "group_id": str(uuid.uuid4())}
        listener = Calls()
        async with consumers.consumer(quick_tidelog, group_instance_id="i1", **options) as staying:
            moving = consumers.consumer(quick_tidelog, group_instance_id="i2", **options)
            staying.subscribe([topic], listener=listener)
            moving.subscribe([topic])
            await poll_until(
                lambda: len(staying.assignment()) == len(moving.assignment()) == 2, staying, moving
            )
            before, calls = moving.assignment(), len(listener.calls)
            await moving.close()
            async with consumers.consumer(quick_tidelog, group_instance_id="i2", **options) as again:
                again.subscribe([topic])
                await poll_until(lambda: bool(again.assignment()), staying, again)
                assert again.assignment() == before
                for _ in range(10):
                    await staying.poll(0.02)
                assert len(listener.calls) == calls

    run(body)


@for_each("protocol", PROTOCOLS)
def test_a_member_that_does_not_poll_loses_its_partitions(
    run: Callable[[Body], None], quick_tidelog: str, protocol: str
) -> None:
    topic = new_topic(quick_tidelog, 2)

    async def body(consumers: Consumers) -> None:
        options = {**PROTOCOLS[protocol], "group_id": str(uuid.uuid4())}
        listener = Calls()
        async with (
            consumers.consumer(quick_tidelog, max_poll_interval_ms=400, **options) as idle,
            consumers.consumer(quick_tidelog, **options) as other,
        ):
            idle.subscribe([topic], listener=listener)
            await poll_until(lambda: len(idle.assignment()) == 2, idle)
            other.subscribe([topic])
            await poll_until(lambda: len(idle.assignment()) == len(other.assignment()) == 1, idle, other)
            await poll_until(lambda: len(other.assignment()) == 2, other)
            lost = sorted(each.partition for each in idle.assignment())
            await idle.poll(0)
            assert listener.calls[-1] == ("lost", lost)
            await poll_until(lambda: len(idle.assignment()) == len(other.assignment()) == 1, idle, other)

    run(body)


class OtherClient(threading.Thread):
    """A member of another client, in a thread; `assigned` is what it has."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.assigned: set[int] = set()
        self.found: list[tuple[int, int]] = []
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True
        self.join(DEADLINE_S)


class Librdkafka(OtherClient):
    """confluent-kafka."""

    strategy = "cooperative-sticky"

    def run(self) -> None:
        consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": self.strategy,
                "heartbeat.interval.ms": 30,
                "fetch.wait.max.ms": 20,
            }
        )
        consumer.subscribe([self.topic])
        while not self.is_stopped:
            message = consumer.poll(0.02)
            self.assigned = {each.partition for each in consumer.assignment()}
            if message is not None and not message.error():
                self.found.append((message.partition(), int(message.value())))
        consumer.close()


class LibrdkafkaInRanges(Librdkafka):
    """confluent-kafka with an eager assignor."""

    strategy = "range"


class Aiokafka(OtherClient):
    """aiokafka, whose sticky assignor is that of the Java client."""

    strategy = "sticky"

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        consumer: Any = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=30,
            fetch_max_wait_ms=20,
            partition_assignment_strategy=[StickyPartitionAssignor],
        )
        await consumer.start()
        while not self.is_stopped:
            batches = await consumer.getmany(timeout_ms=20)
            self.assigned = {each.partition for each in consumer.assignment()}
            self.found += [
                (each.partition, int(each.value)) for records in batches.values() for each in records
            ]
        await consumer.stop()


@for_each("other", (Librdkafka, LibrdkafkaInRanges, Aiokafka))
def test_groups_are_shared_with_other_clients(quick_tidelog: str, other: type[Any]) -> None:
    topic = new_topic(quick_tidelog, 4)
    fill(quick_tidelog, topic, 4, 0, 50)
    group = str(uuid.uuid4())
    options: dict[str, Any] = {
        **QUICK,
        "group_id": group,
        "partition_assignment_strategy": other.strategy,
    }
    found: list[tuple[int, int]] = []

    def poll_for(condition: Callable[[], bool], *consumers: Consumer) -> None:
        for _ in range(round(DEADLINE_S * 100)):
            for consumer in consumers:
                found.extend((each.partition, int(each.value)) for each in consumer.poll(0.01))
            if condition():
                return
        raise AssertionError("it has not come to that")

    def has(consumer: Consumer) -> set[int]:
        return {each.partition for each in consumer.assignment()}

    theirs = other(quick_tidelog, group, topic)
    theirs.start()
    with Consumer(quick_tidelog, **options) as ours:
        ours.subscribe([topic])
        poll_for(lambda: len(has(ours)) == len(theirs.assigned) == 2, ours)
        assert has(ours) | theirs.assigned == set(range(4))
        with Consumer(quick_tidelog, **options) as third:
            third.subscribe([topic])
            poll_for(
                lambda: len(has(third)) >= 1 and len(has(ours) | has(third) | theirs.assigned) == 4
                and len(has(ours)) + len(has(third)) + len(theirs.assigned) == 4, ours, third,
            )  # fmt: skip
        fill(quick_tidelog, topic, 4, 50, 50)
        poll_for(lambda: len(has(ours)) == len(theirs.assigned) == 2, ours)
        theirs.stop()
        poll_for(lambda: len({*found, *theirs.found}) == 400, ours)
        poll_for(lambda: len(has(ours)) == 4, ours)
    assert {*found, *theirs.found} == {(each, number) for each in range(4) for number in range(100)}
    # Commits of ours are in time; the others commit by time, too.
    assert len(found) == len(set(found))
