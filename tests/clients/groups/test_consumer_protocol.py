"""Groups of the consumer protocol (KIP-848), with clients that speak it, and on the way to it and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ConsumerGroupType
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.brokers import running_broker, stop_then_kill
from tests.deadlines import DEADLINE_S
from tests.peers import run_kafka_tool

from .checks import assert_every_record_read, assert_heir_takes_over, assert_one_reader_at_a_time
from .group import PARTITIONS, Group
from .kinds import CONFLUENT, TIDELOG, JavaKind
from .side_by_side import with_each

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
KINDS: tuple[Kind, ...] = (CONFLUENT, TIDELOG, JavaKind())


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


@pytest.mark.parametrize(
    ("assignor", "kinds"),
    # Which assignor the broker takes is the same to it for every client.
    [("uniform", KINDS), pytest.param("range", [CONFLUENT], marks=pytest.mark.long)],
    ids=["uniform", "range"],
)
def test_members_come_and_go(assignor: str, kinds: Sequence[Kind], broker: Broker) -> None:
    """1 → 3 → 1 members; with `uniform` the first keeps reading what stays its own all along."""
    with_each(kinds, lambda kind, _: _come_and_go(kind, assignor, broker))


def _come_and_go(kind: Kind, assignor: str, broker: Broker) -> None:
    with Group(broker, kind, {**CONSUMER, "group.remote.assignor": assignor}) as group:
        first = group.join()
        group.wait_settled()
        group.produce()
        group.wait_read()
        since = len(first.owns) - 1
        group.join()
        group.join()
        group.produce()
        share = PARTITIONS // 3
        group.wait(lambda: all(len(member.owned) == share for member in group.running), "even assignment")
        group.wait_read()
        kept = first.owned
        for member in group.members[1:]:
            group.leave(member)
        group.wait_settled()
        group.produce()
        group.wait_read()
        if assignor == "uniform":
            assert all(kept <= owns.partitions for owns in first.owns[since:])
        group.leave(first)
        assert_one_reader_at_a_time(group)
        assert_every_record_read(group)


@pytest.mark.long
def test_a_member_that_is_killed_is_replaced(impatient_broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        with Group(impatient_broker, kind, CONSUMER) as group:
            killed, heir = group.join(), group.join()
            assert_heir_takes_over(group, killed, heir)

    with_each(KINDS, scenario)


@pytest.mark.long
def test_a_static_member_comes_back_without_a_rebalance(broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        with Group(broker, kind, CONSUMER) as group:
            stays, goes = group.join(group_instance_id="a"), group.join(group_instance_id="b")
            group.wait_settled()
            group.produce()
            group.wait_read()
            group.commit()
            assignments, owned = [*stays.owns], goes.owned
            group.leave(goes)
            group.produce()
            back = group.join(group_instance_id="b")
            group.wait_read()
            assert back.owned == owned
            assert stays.owns == assignments
            assert_every_record_read(group)

    with_each(KINDS, scenario)


@pytest.mark.long
def test_a_group_goes_on_when_its_broker_comes_back(broker: Broker) -> None:
    def scenario(kind: Kind, meet: Meet) -> None:
        with Group(broker, kind, CONSUMER) as group:
            group.join()
            group.join()
            group.wait_settled()
            for _ in range(2):
                group.produce()
                group.wait_read()
                group.commit()
                meet()
            group.produce()
            group.wait_read()
            group.commit()
            for member in [*group.running]:
                group.leave(member)
            group.join()
            group.produce()
            group.wait_read()
            assert_every_record_read(group)

    with_each(KINDS, scenario, between=stop_then_kill(broker))


@pytest.mark.long
def test_a_group_changes_its_protocol_and_back_while_its_members_work(broker: Broker) -> None:
    with_each(KINDS, lambda kind, _: _change_the_protocol_and_back(kind, broker))


def _change_the_protocol_and_back(kind: Kind, broker: Broker) -> None:
    classic = {"group_protocol": "classic", "heartbeat_interval_ms": "200"}
    with Group(broker, kind) as group:
        old = [group.join(**classic), group.join(**classic)]
        group.wait_settled()
        group.produce()
        group.wait_read()
        group.commit()
        assert _type_of(group) is ConsumerGroupType.CLASSIC
        new = [group.join(group_protocol="consumer")]
        group.wait_settled()
        assert _type_of(group) is ConsumerGroupType.CONSUMER
        group.produce()
        group.wait_read()
        group.leave(old[0])
        new.append(group.join(group_protocol="consumer"))
        group.leave(old[1])
        group.wait_settled()
        group.produce()
        group.wait_read()
        group.commit()
        group.join(**classic)
        group.wait_settled()
        assert _type_of(group) is ConsumerGroupType.CONSUMER
        for member in new:
            group.leave(member)
        group.wait_settled()
        assert _type_of(group) is ConsumerGroupType.CLASSIC
        group.produce()
        group.wait_read()
        for member in [*group.running]:
            group.leave(member)
        assert_one_reader_at_a_time(group)
        assert_every_record_read(group)


@pytest.mark.long
def test_kafkas_tool_looks_into_a_group_and_deletes_it(broker: Broker) -> None:
    with Group(broker, CONFLUENT, CONSUMER) as group:
        group.join()
        group.wait_settled()
        group.produce()
        group.wait_read()
        group.commit()
        described = _tool(group, "--describe", "--members", "--verbose")
        assert f"{group.topic}:0,1,2,3,4,5" in described
        assert "uniform" in _tool(group, "--describe", "--state")
        assert _columns(_tool(group, "--describe"), "PARTITION", "LAG") == {
            (str(number), "0") for number in range(PARTITIONS)
        }
        assert "not empty" in _tool(group, "--delete")
        group.leave(group.members[0])
        assert "successful" in _tool(group, "--delete")
        assert "GroupIdNotFoundException" in _tool(group, "--describe")


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


def _tool(group: Group, *arguments: str) -> str:
    """What Apache Kafka's tool for groups says."""
    words = ["--bootstrap-server", group.broker.bootstrap, "--group", group.group_id, *arguments]
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


def _type_of(group: Group) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": group.broker.bootstrap})
    listed = admin.list_consumer_groups().result()
    (found,) = (each for each in listed.valid if each.group_id == group.group_id)
    kind: ConsumerGroupType = found.type
    return kind
