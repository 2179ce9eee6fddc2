"""Groups of every client, with nothing but what a user would set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.brokers import AGAINST_KAFKA, running_broker

from .checks import assert_every_record_read, assert_one_reader_at_a_time
from .crew import PARTITIONS, Crew
from .kinds import KINDS, JavaKind
from .side_by_side import with_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.brokers import Broker

    from .kinds import Kind
    from .side_by_side import Meet

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}
# Only a member that is killed has to be missed soon; the others' sessions outlast any busy machine.
QUICK = {"session_timeout_ms": "3000", "heartbeat_interval_ms": "300"}
PATIENT = {"session.timeout.ms": "120000", "heartbeat.interval.ms": "300"}
# A client that joins as a new member after its broker was away waits until the old one's session is over.
STARTS_OVER = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "300"}
# Apache Kafka 4 refuses clients that are older than 2.1.
OLD = [] if AGAINST_KAFKA else [JavaKind("0.10.2.2"), JavaKind("1.1.1")]
COOPERATIVE = [kind for kind in KINDS if kind.cooperative is not None]
STATIC = [kind for kind in KINDS if kind.static]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all groups, with session timeouts that a test can wait for."""
    with running_broker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.mark.long
def test_members_come_and_go(broker: Broker) -> None:
    """1 → 5 → 2 members with the settings that the client comes with."""

    def scenario(kind: Kind, _: Meet) -> None:
        with Crew(broker, kind) as crew:
            crew.join()
            crew.wait_settled()
            crew.produce()
            crew.wait_read()
            while len(crew.members) < 5:
                crew.join()
            crew.produce()
            crew.wait_settled()
            crew.produce()
            for member in crew.members[1:4]:
                crew.leave(member)
            crew.wait_settled()
            crew.produce()
            crew.wait_read()
            for member in [*crew.running]:
                crew.leave(member)
            assert_one_reader_at_a_time(crew)
            assert_every_record_read(crew)

    # Five members of each are many processes.
    with_each(KINDS, scenario, at_once=3)


def test_a_member_that_is_killed_is_replaced(broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        with Crew(broker, kind, PATIENT) as crew:
            killed, heir = crew.join(**QUICK), crew.join()
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

    with_each([*KINDS, *OLD], scenario, at_once=5)


@pytest.mark.long
@pytest.mark.parametrize("end", ["leave", "kill"])
def test_a_static_member_comes_back_without_a_rebalance(end: str, broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        # It comes back before its session ends, also on a machine that takes long to start a client.
        with Crew(broker, kind, PATIENT) as crew:
            stays, goes = crew.join(group_instance_id="a"), crew.join(group_instance_id="b")
            crew.wait_settled()
            crew.produce()
            crew.wait_read()
            crew.commit()
            assignments = [*stays.owns]
            owned = goes.owned
            getattr(crew, end)(goes)
            crew.produce()
            back = crew.join(group_instance_id="b")
            crew.wait_read()
            assert back.owned == owned
            assert stays.owns == assignments
            assert_every_record_read(crew)

    with_each(STATIC, scenario)


def test_cooperative_members_keep_reading_what_they_keep(broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        strategy = {"partition.assignment.strategy": kind.cooperative or "", "heartbeat.interval.ms": "300"}
        with Crew(broker, kind, strategy) as crew:
            first = crew.join()
            crew.wait_settled()
            crew.produce()
            second = crew.join()
            crew.wait_settled()
            crew.produce()
            crew.wait_read()
            kept = first.owned
            assert len(kept) == len(second.owned) == PARTITIONS // 2
            since = next(index for index, owns in enumerate(first.owns) if owns.partitions)
            assert all(kept <= owns.partitions for owns in first.owns[since:])
            crew.leave(second)
            crew.wait_settled()
            assert all(kept <= owns.partitions for owns in first.owns[since:])
            crew.leave(first)
            assert_one_reader_at_a_time(crew)
            assert_every_record_read(crew)

    with_each(COOPERATIVE, scenario)


@pytest.mark.long
def test_a_group_goes_on_when_its_broker_comes_back(broker: Broker) -> None:
    ends = iter((broker.stop, broker.kill))

    def restart() -> None:
        next(ends)()
        broker.start()

    def scenario(kind: Kind, meet: Meet) -> None:
        with Crew(broker, kind, STARTS_OVER if kind.starts_over else PATIENT) as crew:
            crew.join()
            crew.join()
            crew.wait_settled()
            for _ in range(2):
                crew.produce()
                crew.wait_read()
                crew.commit()
                meet()
            surely_committed = crew.produced // PARTITIONS
            crew.produce()
            crew.wait_read()
            crew.wait_settled()
            crew.commit()
            if not kind.starts_over:
                surely_committed = crew.produced // PARTITIONS
            for member in [*crew.running]:
                crew.leave(member)
            heir = crew.join()
            crew.produce()
            crew.wait_read()
            assert_every_record_read(crew, at_most=3 if kind.starts_over else 1)
            assert min(read.offset for read in heir.reads) >= surely_committed

    with_each(KINDS, scenario, between=restart)
