"""Groups of the consumer protocol (KIP-848), with clients that speak it, and on the way to it and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ConsumerGroupType
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.brokers import running_broker
from tests.deadlines import DEADLINE_S
from tests.peers import run_kafka_tool

from .checks import assert_every_record_read, assert_one_reader_at_a_time
from .crew import PARTITIONS, Crew
from .kinds import CONFLUENT, JavaKind
from .side_by_side import with_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.brokers import Broker

    from .kinds import Kind
    from .side_by_side import Meet

# The broker tells members when to send heartbeats, and how long they may be silent: for longer than any busy
# machine keeps them from it.
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.max.session.timeout.ms": "180000",
    "group.consumer.session.timeout.ms": "180000",
    "group.consumer.assignment.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
# Where a member is killed it has to be missed soon, but not one that a busy machine keeps waiting.
IMPATIENT = {
    **SETTINGS,
    "group.consumer.min.session.timeout.ms": "20000",
    "group.consumer.session.timeout.ms": "20000",
}
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = {"group.protocol": "consumer"}
KINDS: tuple[Kind, ...] = (CONFLUENT, JavaKind())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all groups, with times that a test can wait for."""
    with running_broker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def impatient_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that soon misses a member that was killed."""
    with running_broker(tmp_path_factory.mktemp("impatient"), IMPATIENT) as running:
        yield running


@pytest.mark.parametrize("assignor", ["uniform", pytest.param("range", marks=pytest.mark.long)])
def test_members_come_and_go(assignor: str, broker: Broker) -> None:
    """1 → 3 → 1 members; with `uniform` the first keeps reading what stays its own all along."""
    with_each(KINDS, lambda kind, _: _come_and_go(kind, assignor, broker))


def _come_and_go(kind: Kind, assignor: str, broker: Broker) -> None:
    with Crew(broker, kind, {**CONSUMER, "group.remote.assignor": assignor}) as crew:
        first = crew.join()
        crew.wait_settled()
        crew.produce()
        crew.wait_read()
        since = len(first.owns) - 1
        crew.join()
        crew.join()
        crew.produce()
        share = PARTITIONS // 3
        crew.wait(lambda: all(len(member.owned) == share for member in crew.running), "even assignment")
        crew.wait_read()
        kept = first.owned
        for member in crew.members[1:]:
            crew.leave(member)
        crew.wait_settled()
        crew.produce()
        crew.wait_read()
        if assignor == "uniform":
            assert all(kept <= owns.partitions for owns in first.owns[since:])
        crew.leave(first)
        assert_one_reader_at_a_time(crew)
        assert_every_record_read(crew)


@pytest.mark.long
def test_a_member_that_is_killed_is_replaced(impatient_broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        with Crew(impatient_broker, kind, CONSUMER) as crew:
            killed, heir = crew.join(), crew.join()
            crew.wait_settled()
            crew.produce()
            crew.wait_read()
            crew.commit()
            crew.kill(killed)
            crew.produce()
            crew.wait_settled()
            crew.wait_read()
            assert heir.owned == {*range(PARTITIONS)}
            assert_one_reader_at_a_time(crew)
            assert_every_record_read(crew)

    with_each(KINDS, scenario)


@pytest.mark.long
def test_a_static_member_comes_back_without_a_rebalance(broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        with Crew(broker, kind, CONSUMER) as crew:
            stays, goes = crew.join(group_instance_id="a"), crew.join(group_instance_id="b")
            crew.wait_settled()
            crew.produce()
            crew.wait_read()
            crew.commit()
            assignments, owned = [*stays.owns], goes.owned
            crew.leave(goes)
            crew.produce()
            back = crew.join(group_instance_id="b")
            crew.wait_read()
            assert back.owned == owned
            assert stays.owns == assignments
            assert_every_record_read(crew)

    with_each(KINDS, scenario)


@pytest.mark.long
def test_a_group_goes_on_when_its_broker_comes_back(broker: Broker) -> None:
    ends = iter((broker.stop, broker.kill))

    def restart() -> None:
        next(ends)()
        broker.start()

    def scenario(kind: Kind, meet: Meet) -> None:
        with Crew(broker, kind, CONSUMER) as crew:
            crew.join()
            crew.join()
            crew.wait_settled()
            for _ in range(2):
                crew.produce()
                crew.wait_read()
                crew.commit()
                meet()
            crew.produce()
            crew.wait_read()
            crew.commit()
            for member in [*crew.running]:
                crew.leave(member)
            crew.join()
            crew.produce()
            crew.wait_read()
            assert_every_record_read(crew)

    with_each(KINDS, scenario, between=restart)


@pytest.mark.long
def test_a_group_changes_its_protocol_and_back_while_its_members_work(broker: Broker) -> None:
    with_each(KINDS, lambda kind, _: _change_the_protocol_and_back(kind, broker))


def _change_the_protocol_and_back(kind: Kind, broker: Broker) -> None:
    classic = {"group_protocol": "classic", "heartbeat_interval_ms": "200"}
    with Crew(broker, kind) as crew:
        old = [crew.join(**classic), crew.join(**classic)]
        crew.wait_settled()
        crew.produce()
        crew.wait_read()
        crew.commit()
        assert _type_of(crew) is ConsumerGroupType.CLASSIC
        new = [crew.join(group_protocol="consumer")]
        crew.wait_settled()
        assert _type_of(crew) is ConsumerGroupType.CONSUMER
        crew.produce()
        crew.wait_read()
        crew.leave(old[0])
        new.append(crew.join(group_protocol="consumer"))
        crew.leave(old[1])
        crew.wait_settled()
        crew.produce()
        crew.wait_read()
        crew.commit()
        crew.join(**classic)
        crew.wait_settled()
        assert _type_of(crew) is ConsumerGroupType.CONSUMER
        for member in new:
            crew.leave(member)
        crew.wait_settled()
        assert _type_of(crew) is ConsumerGroupType.CLASSIC
        crew.produce()
        crew.wait_read()
        for member in [*crew.running]:
            crew.leave(member)
        assert_one_reader_at_a_time(crew)
        assert_every_record_read(crew)


@pytest.mark.long
def test_kafkas_tool_looks_into_a_group_and_deletes_it(broker: Broker) -> None:
    with Crew(broker, CONFLUENT, CONSUMER) as crew:
        crew.join()
        crew.wait_settled()
        crew.produce()
        crew.wait_read()
        crew.commit()
        described = _tool(crew, "--describe", "--members", "--verbose")
        assert f"{crew.topic}:0,1,2,3,4,5" in described
        assert "uniform" in _tool(crew, "--describe", "--state")
        assert _columns(_tool(crew, "--describe"), "PARTITION", "LAG") == {
            (str(number), "0") for number in range(PARTITIONS)
        }
        assert "not empty" in _tool(crew, "--delete")
        crew.leave(crew.members[0])
        assert "successful" in _tool(crew, "--delete")
        assert "GroupIdNotFoundException" in _tool(crew, "--describe")


def test_a_regular_expression_is_evaluated_by_the_broker(broker: Broker) -> None:
    """librdkafka sends what begins with `^` as it is."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = ["pattern-a", "pattern-b", "my-pattern"]
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        created.result(DEADLINE_S)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "pattern", **CONSUMER})
    consumer.subscribe(["^pattern-[a-z]"])
    try:
        deadline = time.monotonic() + DEADLINE_S
        while len(consumer.assignment()) < 2 and time.monotonic() < deadline:
            consumer.poll(0.05)
        assert {partition.topic for partition in consumer.assignment()} == {"pattern-a", "pattern-b"}
    finally:
        consumer.close()


def _tool(crew: Crew, *arguments: str) -> str:
    """What Apache Kafka's tool for groups says."""
    words = ["--bootstrap-server", crew.broker.bootstrap, "--group", crew.group, *arguments]
    ended = run_kafka_tool(GROUPS_TOOL, words)
    return ended.stdout + ended.stderr


def _columns(told: str, *names: str) -> set[tuple[str, ...]]:
    """Some columns of a table."""
    lines = [line.split() for line in told.splitlines()]
    header = next(line for line in lines if set(names) <= set(line))
    rows = [dict(zip(header, line, strict=True)) for line in lines if len(line) == len(header)]
    return {
        tuple(row[name] for name in names) for row in rows if row != dict(zip(header, header, strict=True))
    }


def _type_of(crew: Crew) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": crew.broker.bootstrap})
    listed = admin.list_consumer_groups().result()
    (group,) = (group for group in listed.valid if group.group_id == crew.group)
    kind: ConsumerGroupType = group.type
    return kind
