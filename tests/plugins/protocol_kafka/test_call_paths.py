"""The functions and files of tidelog that one warm request passes, from its bytes to the response.

A reader who follows a request has to open these files, and each call costs time. A change that makes a path
longer has to change its limit here. The names of the methods that it passes say at which level they are.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType

import pytest
import trio

import tidelog.kernel
import tidelog.plugins
from tests.plugins.protocol_kafka.apis.client import Client, framed
from tests.plugins.protocol_kafka.apis.groups import IMPATIENT, join_request, stable
from tests.plugins.protocol_kafka.apis.topics import fill, new_topic
from tidelog.kernel.broker import Broker
from tidelog.kernel.network import connection, sending
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    HEARTBEAT,
    JOIN_GROUP,
    PRODUCE,
)
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

OURS = tuple(str(Path(package.__path__[0])) for package in (tidelog.kernel, tidelog.plugins))
TOPIC = "flights"
GROUP = "g"


class CallPath:
    """The functions of tidelog that run between receiving and sending, without generated ones."""

    def __init__(self) -> None:
        self.calls: list[CodeType] = []
        self._received = False
        self._until_sent = 0

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call; for `sys.setprofile`."""
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return
        if event == "call" and self._received:
            self.calls.append(code)
        elif event == "c_return" and getattr(argument, "__name__", "") == "recv_into":
            self._received = True
            self.calls.append(code)
        elif event == "c_call" and getattr(argument, "__name__", "") in ("send", "sendfile"):
            self._until_sent = len(self.calls)

    @property
    def functions(self) -> int:
        """How many different functions were called."""
        return len(set(self.calls[: self._until_sent]))

    @property
    def files(self) -> int:
        """How many files these functions are in."""
        return len({code.co_filename for code in self.calls[: self._until_sent]})

    @property
    def shared_names(self) -> dict[str, set[str]]:
        """Names of methods that were called in several classes, and which classes these are."""
        classes: dict[str, set[str]] = defaultdict(set)
        for code in self.calls[: self._until_sent]:
            owner, _, name = code.co_qualname.rpartition(".")
            if owner and "<" not in code.co_qualname and not name.startswith("__"):
                classes[name].add(f"{code.co_filename}: {owner}")
        return {name: owners for name, owners in classes.items() if len(owners) > 1}

    def __str__(self) -> str:
        lines = (
            f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"
            for code in self.calls[: self._until_sent]
        )
        return "\n".join(lines)


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Broker]:
    # A request that is profiled takes longer than a turn, and than a step of sending it.
    monkeypatch.setattr(connection, "TURN_SECONDS", 60.0)
    monkeypatch.setattr(sending, "STEP_SECONDS", 60.0)
    settings = {**IMPATIENT, "coordinator": "classic", "storage": "file", "log.dirs": str(tmp_path)}
    async with running_broker(settings) as broker:
        yield broker


Exchange = Callable[[bytes], Awaitable[None]]
Prepare = Callable[[Broker], Awaitable[bytes]]
"""Brings the broker into the state that the returned request needs."""


@pytest.fixture
async def exchange(broker: Broker) -> AsyncGenerator[Exchange]:
    """Sends a request through a socket and receives its whole response."""
    host, _, port = next(iter(broker.listeners.values())).rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:

        async def exchange(request: bytes) -> None:
            await stream.send_all(request)
            received = await stream.receive_some()
            while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
                received += await stream.receive_some()

        yield exchange


async def call_path(exchange: Exchange, request: bytes) -> CallPath:
    """The path of a request that is sent for the fourth time."""
    for _ in range(3):
        await exchange(request)
    path = CallPath()
    sys.setprofile(path.profile)
    try:
        await exchange(request)
    finally:
        sys.setprofile(None)
    return path


async def produce(broker: Broker) -> bytes:
    topic = await new_topic(broker, TOPIC)
    data = TopicProduceData(
        topic_id=topic.topic_id.bytes,
        partition_data=[PartitionProduceData(index=0, records=memoryview(make_batch([b"x"])))],
    )
    return framed(PRODUCE, 13, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))


async def fetch(broker: Broker) -> bytes:
    topic = await new_topic(broker, TOPIC)
    fill(topic, 0, [1] * 5)
    partition = FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=topic.topic_id.bytes, partitions=[partition])]
    return framed(FETCH, 17, FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics))


async def classic_heartbeat(broker: Broker) -> bytes:
    await broker.coordinator.prepare_groups()
    joined = await stable(Client(broker))
    request = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    return framed(HEARTBEAT, 4, request)


async def classic_join(broker: Broker) -> bytes:
    """Its leader joins again, alone in the group, which begins a generation."""
    await broker.coordinator.prepare_groups()
    joined = await stable(Client(broker))
    return framed(JOIN_GROUP, 9, join_request(joined.member_id, group_id=GROUP))


async def consumer_heartbeat(broker: Broker) -> bytes:
    await broker.coordinator.prepare_groups()
    await new_topic(broker, TOPIC)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    joined = await Client(broker).ask(CONSUMER_GROUP_HEARTBEAT, 1, request)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=joined.member_epoch, topic_partitions=None
    )
    return framed(CONSUMER_GROUP_HEARTBEAT, 1, request)


@pytest.mark.parametrize(
    ("prepare", "functions", "files"),
    [(produce, 34, 17), (fetch, 45, 17), (classic_heartbeat, 23, 13), (consumer_heartbeat, 31, 16)],
)
async def test_call_path_of_a_warm_request(
    broker: Broker, exchange: Exchange, prepare: Prepare, functions: int, files: int
) -> None:
    path = await call_path(exchange, await prepare(broker))
    assert path.functions <= functions, str(path)
    assert path.files <= files, str(path)


@pytest.mark.parametrize("prepare", [produce, fetch, classic_heartbeat, classic_join, consumer_heartbeat])
async def test_each_method_of_a_warm_request_has_a_name_of_its_own(
    broker: Broker, exchange: Exchange, prepare: Prepare
) -> None:
    path = await call_path(exchange, await prepare(broker))
    assert path.functions > 20
    assert path.shared_names == {}
