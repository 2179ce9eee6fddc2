"""The registration of a broker through what happens to ZooKeeper and to its topics."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest
import trio
from trio.testing import MockClock

from tests.conftest import only_cause
from tests.metadata_changes import lead_partitions
from tests.plugins.zookeeper.fake_zookeeper import Ensemble, FakeZooKeeper
from tests.plugins.zookeeper.registered import CLUSTER, Registered, broker_info
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.events import TopicCreated
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper import nodes
from tidelog.plugins.zookeeper.connect_string import parse_connect_string
from tidelog.plugins.zookeeper.registration import (
    LOG_INTERVAL_S,
    LONGEST_RETRY_S,
    Registration,
    RegistrationTimes,
)
from tidelog.plugins.zookeeper.service import registration_of

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic

CONNECT = parse_connect_string("zoo:2181/k")
SESSION_S = 6.0


class Lifespan:
    """What a task of a broker is handed, for a test that stops it."""

    def __init__(self) -> None:
        self.is_ready = trio.Event()
        self.stopping = trio.Event()

    def ready(self) -> None:
        self.is_ready.set()

    async def wait_stopping(self) -> None:
        await self.stopping.wait()


class Running(Registered):
    """A registry with its registration."""

    lifespan: Lifespan
    registration: Registration


NODES = ("/brokers/ids/1", "/controller")


def not_running(ensemble: Ensemble | None = None, *, reachable: bool = True) -> Running:
    new = Running(ensemble or Ensemble())
    new.zookeeper.disconnect()
    new.zookeeper._reachable = reachable  # pyright: ignore[reportPrivateUsage]
    new.zookeeper.problem = ""
    new.lifespan = Lifespan()
    times = RegistrationTimes(2.0, SESSION_S)
    new.registration = Registration(new.zookeeper, new.registry, CONNECT, times, lambda: 5)
    return new


@asynccontextmanager
async def running(new: Running) -> AsyncGenerator[Running]:
    """Run a registration until the block ends; it is ready."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(new.registration.run, new.lifespan)
        await new.lifespan.is_ready.wait()
        yield new
        new.lifespan.stopping.set()


async def settled() -> None:
    """Let everything happen that needs no time."""
    await trio.testing.wait_all_tasks_blocked()


async def test_registration_is_there_before_the_broker_is_ready(autojump_clock: MockClock) -> None:
    async with running(not_running()) as broker:
        assert broker.below("/brokers/ids") == ["1"]
        await settled()
        status = broker.registration.status
        assert (status.state, status.session, status.since_ms) == ("registered", "0x1", 5)
    assert broker.below("/brokers/ids") == []


async def test_registration_lets_the_broker_start_without_zookeeper(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(not_running(reachable=False)) as broker:
        assert trio.current_time() == 0
        assert broker.registration.status.state == "disconnected"
        await trio.sleep(1000)
        # One line and not one for each attempt.
        assert [each.getMessage() for each in caplog.records] == [
            "ZooKeeper at zoo:2181/k: not connected: Connection refused; the broker serves, but clients that "
            "look for it there do not find it, or find what is not up to date"
        ]
        broker.put("orders")
        broker.zookeeper.connect()
        await trio.sleep(1)
        assert broker.below("/brokers/topics") == ["orders"]
        assert broker.registration.status.state == "registered"


async def test_registration_waits_for_a_server_that_does_not_answer_as_long_as_is_configured(
    autojump_clock: MockClock,
) -> None:
    new = not_running(reachable=False)
    new.zookeeper.disconnect = lambda problem="": None  # type: ignore[method-assign]
    async with running(new) as broker:
        assert trio.current_time() == 2
        assert broker.registration.status.last_error == "not connected: no server has answered yet"


@pytest.mark.parametrize("port", [9092, 9093])
async def test_registration_refuses_a_start_whose_id_is_taken(autojump_clock: MockClock, port: int) -> None:
    ensemble = Ensemble()
    ensemble.put("/cluster/id", nodes.cluster_id(CLUSTER if port == 9093 else "other"))
    ensemble.put("/brokers/ids/1", nodes.broker(broker_info(port=9093)), owner=ensemble.new_session())
    new = not_running(ensemble)
    with pytest.raises(BaseExceptionGroup) as failed:
        async with running(new):
            pytest.fail("it is not ready")
    cause = only_cause(failed.value)
    assert isinstance(cause, ConfigError)
    assert str(cause).startswith("zookeeper.connect = zoo:2181/k: ")


async def test_registration_waits_until_the_session_of_an_earlier_run_expires(
    autojump_clock: MockClock,
) -> None:
    ensemble = Ensemble()
    earlier = ensemble.new_session()
    ensemble.put("/cluster/id", nodes.cluster_id(CLUSTER))
    ensemble.put("/brokers/ids/1", nodes.broker(broker_info()), owner=earlier)
    async with running(not_running(ensemble)) as broker:
        await trio.sleep(SESSION_S - 1)
        assert broker.registration.status.state == "not registered"
        assert "earlier run" in broker.registration.status.last_error
        ensemble.expire(earlier)
        await trio.sleep(2)
        assert broker.registration.status.state == "registered"


async def test_registration_says_so_when_the_session_of_an_earlier_run_does_not_expire(
    autojump_clock: MockClock,
) -> None:
    ensemble = Ensemble()
    ensemble.put("/cluster/id", nodes.cluster_id(CLUSTER))
    ensemble.put("/brokers/ids/1", nodes.broker(broker_info()), owner=ensemble.new_session())
    async with running(not_running(ensemble)) as broker:
        await trio.sleep(2 * SESSION_S + 2)
        assert "another broker has the same id and address" in broker.registration.status.last_error


async def test_registration_follows_an_expired_session(autojump_clock: MockClock) -> None:
    async with running(not_running()) as broker:
        await settled()
        # A change of which no event comes: it is found when everything is compared.
        broker.put("orders", 2)
        broker.zookeeper.expire()
        await settled()
        assert broker.registration.status.state == "disconnected"
        broker.zookeeper.connect()
        await trio.sleep(1)
        assert broker.ensemble.read("/brokers/ids/1").owner == broker.zookeeper.session_id
        assert broker.below("/brokers/topics/orders/partitions") == ["0", "1"]
        assert broker.registration.status.state == "registered"


async def test_registration_repeats_a_change_whose_answer_was_lost(autojump_clock: MockClock) -> None:
    async with running(not_running()) as broker:
        await settled()
        topic = broker.put("orders", 2)
        broker.zookeeper.lose_answer = 1
        # As an event does, whose topic is all that is known of it here.
        broker.registration.on_event(TopicCreated(cast("Topic", topic)))
        await trio.sleep(2)
        assert broker.below("/brokers/topics/orders/partitions") == ["0", "1"]
        assert broker.registration.status.failures == 1


async def test_registration_keeps_its_nodes_through_a_lost_connection(autojump_clock: MockClock) -> None:
    async with running(not_running()) as broker:
        await settled()
        session = broker.zookeeper.session_id
        broker.zookeeper.disconnect()
        await trio.sleep(1)
        broker.zookeeper.connect()
        await trio.sleep(1)
        assert broker.ensemble.read("/brokers/ids/1").owner == session
        assert broker.value("/controller_epoch") == b"1"
        assert broker.registration.status.state == "registered"


async def test_registration_is_bounded_where_connections_come_and_go(autojump_clock: MockClock) -> None:
    async with running(not_running()) as broker:
        await settled()
        broker.zookeeper.operations = 0
        for _ in range(1000):
            broker.zookeeper.expire()
            broker.zookeeper.connect()
            await trio.sleep(0.01)
        # Each registration is some thirty of them, and there are at most two in a second.
        assert broker.zookeeper.operations < 20 * 40


async def test_registration_logs_little_where_connections_come_and_go(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(not_running()) as broker:
        for _ in range(100):
            broker.zookeeper.expire()
            broker.zookeeper.connect()
            await trio.sleep(1)
    assert len(caplog.records) <= 3 * (1 + 100 / LOG_INTERVAL_S)


async def test_registration_tries_a_refused_topic_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    new = not_running()
    new.put("closed")
    new.ensemble.refusing.add("/config/topics/closed")
    async with running(new) as broker:
        await trio.sleep(1)
        assert (broker.registration.status.topics, broker.registration.status.refused_topics) == (0, 1)
        assert "ZooKeeper does not take the topic closed: /config/topics/closed" in caplog.text
        broker.ensemble.refusing.clear()
        await trio.sleep(LONGEST_RETRY_S)
        assert (broker.registration.status.topics, broker.registration.status.refused_topics) == (1, 0)


async def test_registration_is_not_of_a_session_in_which_it_was_refused(autojump_clock: MockClock) -> None:
    new = not_running()
    new.ensemble.refusing.add("/controller")
    async with running(new) as broker:
        assert broker.registration.status.state == "not registered"
        broker.ensemble.refusing.clear()
        await trio.sleep(LONGEST_RETRY_S)
        assert broker.registration.status.state == "registered"


async def test_registration_follows_the_topics_of_a_broker() -> None:
    ensemble = Ensemble()
    async with running_broker() as broker:
        zookeeper = FakeZooKeeper(ensemble)
        registration = registration_of(broker, zookeeper, CONNECT)
        lifespan = Lifespan()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.run, lifespan)
            await lifespan.is_ready.wait()
            await broker.topics.create(TopicSpec("orders", 2))
            await settled()
            assert ensemble.below("/brokers/topics/orders/partitions") == ["0", "1"]
            await broker.topics.grow("orders", 3)
            await settled()
            assert ensemble.below("/brokers/topics/orders/partitions") == ["0", "1", "2"]
            await broker.topics.alter_config("orders", lambda _: {"retention.ms": "5"})
            await settled()
            assert b'"retention.ms":"5"' in ensemble.read("/config/topics/orders").value
            assert len(ensemble.below("/config/changes")) == 1
            await lead_partitions(broker, TopicPartition("orders", 2), leader_id=4)
            await settled()
            assert b'"leader":4' in ensemble.read("/brokers/topics/orders/partitions/2/state").value
            await broker.topics.delete("orders")
            await settled()
            assert not ensemble.below("/brokers/topics")
            lifespan.stopping.set()


@pytest.mark.parametrize("path", NODES)
async def test_registration_of_a_node_that_was_removed_by_hand_is_made_again(
    path: str, autojump_clock: MockClock
) -> None:
    async with running(not_running()) as one:
        await trio.sleep(1)
        session = one.zookeeper.session_id
        for _ in range(3):
            one.ensemble.delete(path)
            await trio.sleep(1)
            assert one.ensemble.read(path).owner == session
        assert one.registration.status.state == "registered"


async def test_registration_that_was_overwritten_by_hand_is_written_again(autojump_clock: MockClock) -> None:
    async with running(not_running()) as one:
        await trio.sleep(1)
        before = one.value(NODES[0])
        one.ensemble.write(NODES[0], b"{}")
        await trio.sleep(1)
        assert one.value(NODES[0]) == before


async def test_registration_names_the_broker_that_took_its_id(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(not_running()) as one:
        await trio.sleep(1)
        other = one.ensemble.new_session()
        one.ensemble.delete(NODES[0])
        one.ensemble.put(NODES[0], nodes.broker(broker_info(port=9999)), owner=other)
        await trio.sleep(1)
        assert one.registration.status.state == "not registered"
        assert f"registered by another broker (session 0x{other:x}, broker:9999" in caplog.text
        one.ensemble.expire(other)
        await trio.sleep(LONGEST_RETRY_S)
        assert one.registration.status.state == "registered"


async def test_registration_that_is_removed_again_and_again_keeps_no_one_busy(
    autojump_clock: MockClock,
) -> None:
    async with running(not_running()) as one:
        await trio.sleep(1)
        before = one.zookeeper.operations
        for _ in range(1000):
            if NODES[0] in one.ensemble.nodes:
                one.ensemble.delete(NODES[0])
            await trio.sleep(0.01)
        # Twice a second, each time with a comparison of what is there.
        assert one.zookeeper.operations - before < 22 * 30
