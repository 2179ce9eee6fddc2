"""Parts of the broker that plugins offer and that raise what they may not, in the middle of a request."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.plugins.protocol_kafka.apis.client import framed
from tests.plugins.protocol_kafka.apis.topics import new_topic
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.assignors.uniform import UniformAssignor
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    FIND_COORDINATOR,
    HEARTBEAT,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.find_coordinator import FindCoordinatorRequest
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest

CREATION = CreateTopicsRequest(
    topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])],
    timeout_ms=1000,
)
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
JOIN = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="AAAAAAAAAAAAAAAAAAAAAA",
    member_epoch=0,
    rebalance_timeout_ms=1000,
    subscribed_topic_names=["flights"],
    topic_partitions=[],
)


async def answers(broker: Broker, api: Api, version: int, request: object) -> bool:
    """Whether a request on a new connection is answered; else the connection ends."""
    host, _, port = broker.listeners["PLAINTEXT"].rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all(framed(api, version, request))
        return bool(await stream.receive_some())


@pytest.mark.parametrize(
    ("part", "method", "api", "version", "request_"),
    [
        ("controller", "create_topics", CREATE_TOPICS, 7, CREATION),
        ("metadata", "commit", CREATE_TOPICS, 7, CREATION),
        ("groups", "heartbeat", HEARTBEAT, 4, BEAT),
        ("assignor", "assign", CONSUMER_GROUP_HEARTBEAT, 1, JOIN),
    ],
)
async def test_a_part_that_raises_ends_the_connection_of_the_request_alone(
    part: str,
    method: str,
    api: Api,
    version: int,
    request_: object,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a fault of the plugin")

    async with running_broker() as broker:
        await new_topic(broker)
        kind = {
            "controller": type(broker.controller),
            "metadata": type(broker.metadata),
            "groups": type(broker.coordinator.groups),
            "assignor": UniformAssignor,
        }[part]
        found = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        assert await answers(broker, FIND_COORDINATOR, 4, found)
        with monkeypatch.context() as patched:
            patched.setattr(kind, method, failing)
            assert not await answers(broker, api, version, request_)
            versions = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
            assert await answers(broker, API_VERSIONS, 3, versions)
        assert await answers(broker, api, version, request_)
    (line,) = [each for each in caplog.records if "failed inside the broker" in each.message]
    assert line.message.endswith("failing)")
    assert line.exc_info is not None
