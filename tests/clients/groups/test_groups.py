"""Groups of every client, with nothing but what a user would set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.brokers import AGAINST_KAFKA, running_broker

from .checks import assert_every_record_read, assert_one_reader_at_a_time
from .crew import PARTITIONS, Crew
from .kinds import KINDS, JavaKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.brokers import Broker

    from .kinds import Kind

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}
# Only a member that is killed has to be missed soon; the others' sessions outlast any busy machine.
QUICK = {"session_timeout_ms": "3000", "heartbeat_interval_ms": "300"}
PATIENT = {"session.timeout.ms": "120000", "heartbeat.interval.ms": "300"}
# A client that joins as a new member after its broker was away waits until the old one's session is over.
STARTS_OVER = {"session.timeout.ms": "20000", "heartbeat.interval.ms": "300"}
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
# Apache Kafka 4 refuses clients that are older than 2.1.
OLD = [] if AGAINST_KAFKA else [JavaKind("0.10.2.2"), JavaKind("1.1.1")]
COOPERATIVE = [kind for kind in KINDS if kind.cooperative is not None]
STATIC = [kind for kind in KINDS if kind.static]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all groups, with session timeouts that a test can wait for."""
    with running_broker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@EACH
def test_members_come_and_go(kind: Kind, broker: Broker) -> None:
    """1 → 5 → 2 members with the settings that the client comes with."""
    with Crew(broker, kind) as crew:
        crew.join()
        crew.wait_settled()
        crew.produce()
        crew.wait_read()
        for _ in range(4):
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


@pytest.mark.parametrize("kind", [*KINDS, *OLD], ids=lambda kind: kind.name)
def test_a_member_that_is_killed_is_replaced(kind: Kind, broker: Broker) -> None:
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


@pytest.mark.parametrize("kind", STATIC, ids=lambda kind: kind.name)
@pytest.mark.parametrize("end", ["leave", "kill"])
def test_a_static_member_comes_back_without_a_rebalance(kind: Kind, end: str, broker: Broker) -> None:
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


@pytest.mark.parametrize("kind", COOPERATIVE, ids=lambda kind: kind.name)
def test_cooperative_members_keep_reading_what_they_keep(kind: Kind, broker: Broker) -> None:
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


@EACH
def test_a_group_goes_on_when_its_broker_comes_back(kind: Kind, broker: Broker) -> None:
    with Crew(broker, kind, STARTS_OVER if kind.starts_over else PATIENT) as crew:
        crew.join()
        crew.join()
        crew.wait_settled()
        for end in (broker.stop, broker.kill):
            crew.produce()
            crew.wait_read()
            crew.commit()
            end()
            broker.start()
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
