"""Groups of every client, with nothing but what a user would set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.brokers import AGAINST_KAFKA, running_broker, stop_then_kill

from .checks import assert_every_record_read, assert_heir_takes_over, assert_one_reader_at_a_time
from .group import PARTITIONS, Group
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
        with Group(broker, kind) as group:
            group.join()
            group.wait_settled()
            group.produce()
            group.wait_read()
            while len(group.members) < 5:
                group.join()
            group.produce()
            group.wait_settled()
            group.produce()
            for member in group.members[1:4]:
                group.leave(member)
            group.wait_settled()
            group.produce()
            group.wait_read()
            for member in [*group.running]:
                group.leave(member)
            assert_one_reader_at_a_time(group)
            assert_every_record_read(group)

    # Five members of each are many processes.
    with_each(KINDS, scenario, at_once=3)


def test_a_member_that_is_killed_is_replaced(broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        with Group(broker, kind, PATIENT) as group:
            killed, heir = group.join(**QUICK), group.join()
            assert_heir_takes_over(group, killed, heir)

    with_each([*KINDS, *OLD], scenario, at_once=5)


@pytest.mark.long
def test_a_static_member_comes_back_without_a_rebalance(broker: Broker) -> None:
    """After it left, and after it was killed."""

    def scenario(kind: Kind, _: Meet) -> None:
        # It comes back before its session ends, also on a machine that takes long to start a client.
        with Group(broker, kind, PATIENT) as group:
            stays, goes = group.join(group_instance_id="a"), group.join(group_instance_id="b")
            group.wait_settled()
            group.produce()
            group.wait_read()
            group.commit()
            assignments = [*stays.owns]
            owned = goes.owned
            for end in (group.leave, group.kill):
                end(goes)
                group.produce()
                goes = group.join(group_instance_id="b")
                group.wait_read()
                assert goes.owned == owned
                assert stays.owns == assignments
                # What the next one is not to read again.
                group.commit()
            assert_every_record_read(group)

    with_each(STATIC, scenario)


def test_cooperative_members_keep_reading_what_they_keep(broker: Broker) -> None:
    def scenario(kind: Kind, _: Meet) -> None:
        strategy = {"partition.assignment.strategy": kind.cooperative or "", "heartbeat.interval.ms": "300"}
        with Group(broker, kind, strategy) as group:
            first = group.join()
            group.wait_settled()
            group.produce()
            second = group.join()
            group.wait_settled()
            group.produce()
            group.wait_read()
            kept = first.owned
            assert len(kept) == len(second.owned) == PARTITIONS // 2
            since = next(index for index, owns in enumerate(first.owns) if owns.partitions)
            assert all(kept <= owns.partitions for owns in first.owns[since:])
            group.leave(second)
            group.wait_settled()
            assert all(kept <= owns.partitions for owns in first.owns[since:])
            group.leave(first)
            assert_one_reader_at_a_time(group)
            assert_every_record_read(group)

    with_each(COOPERATIVE, scenario)


@pytest.mark.long
def test_a_group_goes_on_when_its_broker_comes_back(broker: Broker) -> None:
    def scenario(kind: Kind, meet: Meet) -> None:
        with Group(broker, kind, STARTS_OVER if kind.starts_over else PATIENT) as group:
            group.join()
            group.join()
            group.wait_settled()
            for _ in range(2):
                group.produce()
                group.wait_read()
                group.commit()
                meet()
            surely_committed = group.produced // PARTITIONS
            group.produce()
            group.wait_read()
            group.wait_settled()
            group.commit()
            if not kind.starts_over:
                surely_committed = group.produced // PARTITIONS
            for member in [*group.running]:
                group.leave(member)
            heir = group.join()
            group.produce()
            group.wait_read()
            assert_every_record_read(group, at_most=3 if kind.starts_over else 1)
            assert min(read.offset for read in heir.reads) >= surely_committed

    with_each(KINDS, scenario, between=stop_then_kill(broker))
