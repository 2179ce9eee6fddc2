"""Groups that members of tidelog's client share with those of others, on tidelog and on Apache Kafka."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.clients.brokers import running_broker
from tests.peers import PeerUnavailableError, running_kafka

from .checks import assert_every_record_read, assert_one_reader_at_a_time
from .group import PARTITIONS, Group
from .kinds import CONFLUENT, TIDELOG, JavaKind, PythonKind
from .test_consumer_protocol import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tests.clients.brokers import Broker

    from .kinds import Kind
    from .member import Member

AIOKAFKA = PythonKind("aiokafka")
JAVA = JavaKind()
QUICK = {"heartbeat_interval_ms": "200"}
CONSUMER = {"group_protocol": "consumer"}
IN_JAVA = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
SHARED: dict[str, tuple[Kind, ...]] = {
    "range": (CONFLUENT, JAVA),
    "roundrobin": (CONFLUENT, AIOKAFKA, JAVA),
    "cooperative-sticky": (CONFLUENT, JAVA),
    "consumer": (CONFLUENT, JAVA),
}


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all groups, with times that a test can wait for."""
    work_dir = tmp_path_factory.mktemp(request.param)
    with _running(request.param, work_dir) as running:
        yield running


@contextmanager
def _running(name: str, work_dir: Path) -> Generator[Broker]:
    if name == "tidelog":
        with running_broker(work_dir, SETTINGS) as tidelog:
            yield tidelog
        return
    try:
        with running_kafka(work_dir, settings=SETTINGS) as kafka:
            yield kafka
    except PeerUnavailableError as error:
        pytest.skip(str(error))


def _strategy(kind: Kind, *names: str) -> dict[str, str]:
    """A client's setting for these assignors; aiokafka has but roundrobin under a name."""
    if kind is AIOKAFKA:
        return {}
    chosen = [IN_JAVA[name] for name in names] if isinstance(kind, JavaKind) else list(names)
    return {"partition_assignment_strategy": ",".join(chosen)}


def _join(group: Group, kind: Kind, **settings: str) -> Member:
    group.kind = kind
    return group.join(**settings)


@pytest.mark.parametrize("how", SHARED)
def test_members_of_several_clients_share_a_group(broker: Broker, how: str) -> None:
    """One of each other client and two of ours come, and go one after the other."""
    with Group(broker, TIDELOG) as group:
        for kind in (TIDELOG, *SHARED[how], TIDELOG):
            settings = CONSUMER if how == "consumer" else {**QUICK, **_strategy(kind, how)}
            _join(group, kind, **settings)
        group.wait_settled()
        group.produce()
        group.wait_read()
        for member in group.members[:-1]:
            group.leave(member)
            group.wait_settled()
            group.produce()
            group.wait_read()
        assert group.members[-1].owned == {*range(PARTITIONS)}
        group.leave(group.members[-1])
        group.kind = TIDELOG
        assert_one_reader_at_a_time(group)
        assert_every_record_read(group)


def _roll(group: Group, rounds: list[dict[str, str]], kinds: tuple[Kind, ...]) -> None:
    """Replace each member by one with the settings of the next round, while records come and are read."""
    members = {kind: _join(group, kind, **QUICK, **_settings(kind, rounds[0])) for kind in kinds}
    group.wait_settled()
    group.produce()
    group.wait_read()
    for each in rounds[1:]:
        for kind in kinds:
            group.leave(members[kind])
            settings = _settings(kind, each)
            quick = {} if settings.get("group_protocol") == "consumer" else QUICK
            members[kind] = _join(group, kind, **quick, **settings)
            group.produce()
            group.wait_settled()
            group.wait_read()
    for member in [*group.running]:
        group.leave(member)
    assert_one_reader_at_a_time(group)
    assert_every_record_read(group)


def _settings(kind: Kind, settings: dict[str, str]) -> dict[str, str]:
    names = settings.get("strategies")
    return settings if names is None else _strategy(kind, *names.split(","))


def test_a_group_goes_over_from_eager_to_cooperative(broker: Broker) -> None:
    rounds = [{"strategies": each} for each in ("range", "cooperative-sticky,range", "cooperative-sticky")]
    with Group(broker, TIDELOG) as group:
        # librdkafka knows no such way.
        _roll(group, rounds, (TIDELOG, JAVA))


def test_a_group_goes_over_from_classic_to_consumer_and_back(broker: Broker) -> None:
    rounds = [{"strategies": "range"}, CONSUMER, {"strategies": "range"}]
    with Group(broker, TIDELOG) as group:
        _roll(group, rounds, (TIDELOG, CONFLUENT, JAVA))
