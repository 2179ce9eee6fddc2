"""Clients that find their brokers in a real ZooKeeper, over each driver, also brokers that come later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from tests.deadlines import DEADLINE_S
from tests.peers import TidelogServer, running_tidelog, running_zookeeper
from tests.tables import for_each
from tidelog.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    Consumer,
    Producer,
    SimpleConsumer,
    TopicPartition,
    ZooKeeperEnsemble,
)
from tidelog.plugins.client.errors import RequestTimedOut
from tidelog.plugins.zookeeper.nodes import address_by

PLACE = TopicPartition("found", 0)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a ZooKeeper."""
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server.connect


@pytest.fixture
def observer(zookeeper: str) -> Iterator[Any]:
    """Another client."""
    observer: Any = KazooClient(zookeeper)
    observer.start(DEADLINE_S)
    yield observer
    observer.stop()
    observer.close()


def test_blocking_clients_find_brokers_in_zookeeper(zookeeper: str, tmp_path: Path) -> None:
    place = f"zookeeper://{zookeeper}/blocking"
    with running_tidelog(tmp_path, settings={"zookeeper.connect": f"{zookeeper}/blocking"}):
        with Producer(place) as producer:
            assert producer.send_and_wait("found", b"tea").offset == 0
        with Consumer(ZooKeeperEnsemble(f"{zookeeper}/blocking"), auto_offset_reset="earliest") as consumer:
            consumer.assign([PLACE])
            assert [record.value for record in consumer.poll(DEADLINE_S)] == [b"tea"]
        with SimpleConsumer(place) as simple:
            assert [record.value for record in simple.fetch("found", 0, 0).records()] == [b"tea"]
        with Admin(place) as admin:
            assert "found" in {str(each) for each in admin.list_topics()}


RUNS: dict[str, Callable[[Callable[[], Coroutine[Any, Any, None]]], None]] = {
    "trio": trio.run,
    "asyncio": lambda body: asyncio.run(body()),
}


@for_each("library", RUNS)
def test_async_clients_find_brokers_in_zookeeper(zookeeper: str, tmp_path: Path, library: str) -> None:
    connect = f"{zookeeper}/{library}"
    place = f"zookeeper://{connect}"
    folder = tmp_path / library
    folder.mkdir()

    async def body() -> None:
        async with AsyncProducer(place) as producer:
            assert (await producer.send_and_wait("found", b"tea")).offset == 0
        async with AsyncConsumer(place, auto_offset_reset="earliest") as consumer:
            consumer.assign([PLACE])
            assert [record.value for record in await consumer.poll(DEADLINE_S)] == [b"tea"]
        async with AsyncSimpleConsumer(place) as simple:
            assert [record.value for record in (await simple.fetch("found", 0, 0)).records()] == [b"tea"]
        async with AsyncAdmin(place) as admin:
            assert await admin.list_topics()

    with running_tidelog(folder, settings={"zookeeper.connect": connect}):
        RUNS[library](body)


def test_a_client_finds_brokers_that_come_later(zookeeper: str, tmp_path: Path, observer: Any) -> None:
    settings = {"zookeeper.connect": f"{zookeeper}/later", "zookeeper.session.timeout.ms": "2000"}
    with Admin(
        f"zookeeper://{zookeeper}/later", default_api_timeout_ms=3000, socket_connection_setup_timeout_ms=1000
    ) as admin:
        with pytest.raises(RequestTimedOut, match=r"no broker is registered in ZooKeeper at .*/later"):
            admin.list_topics()
        ports: set[int] = set()
        for name in ("one", "two"):
            # Another one each time, at another port: the address of the first leads nowhere then.
            (tmp_path / name).mkdir()
            server = TidelogServer(tmp_path / name, {**settings, "node.id": "7"})
            if name == "two":
                observer.delete("/later/cluster/id")
                observer.delete("/later/brokers/topics", recursive=True)
            server.start()
            try:
                until(lambda: has_answer(admin))
                assert admin.describe_cluster().brokers.keys() == {7}
                ports.add(admin.describe_cluster().brokers[7].port)
            finally:
                server.stop()
        assert len(ports) == 2


def has_answer(admin: Admin) -> bool:
    try:
        admin.list_topics()
    except RequestTimedOut:
        return False
    return True


def until(condition: Callable[[], bool]) -> None:
    for _ in range(round(DEADLINE_S)):
        if condition():
            return
    raise AssertionError("it has not come to that")


@for_each(
    ("value", "address"),
    [
        ({"host": "a", "port": 9092, "endpoints": ["SSL://b:1"]}, ("a", 9092)),
        ({"host": None, "port": -1, "endpoints": ["SSL://b:1", "PLAINTEXT://[::1]:2"]}, ("::1", 2)),
        (
            {
                "host": None,
                "port": -1,
                "endpoints": ["INSIDE://c:3"],
                "listener_security_protocol_map": {"INSIDE": "PLAINTEXT"},
            },
            ("c", 3),
        ),
        ({"host": None, "port": -1, "endpoints": ["INSIDE://c:3"]}, None),
        ({"host": "a", "port": 70000}, None),
        ({"endpoints": "none", "host": 7}, None),
    ],
)
def test_plaintext_address_is_the_one_without_tls(value: object, address: object) -> None:
    assert address_by("PLAINTEXT", json.dumps(value).encode()) == address


def test_plaintext_address_of_brokers_of_0_7() -> None:
    assert address_by("PLAINTEXT", b"host-123:10.0.0.7:9092") == ("10.0.0.7", 9092)
    assert address_by("PLAINTEXT", b"nonsense") is None


def test_an_ensemble_is_checked_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="the ensemble 'a:b' has 'a:b', which is not host:port"):
        Producer("zookeeper://a:b")
    with pytest.raises(ValueError, match="session_timeout_ms is 0"):
        ZooKeeperEnsemble("a:1", session_timeout_ms=0)
    monkeypatch.setattr("tidelog.plugins.client.zookeeper_ensemble.find_spec", lambda _name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'tidelog\[zookeeper\]'"):
        Producer("zookeeper://a:1")
