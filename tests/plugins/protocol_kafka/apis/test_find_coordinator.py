"""FindCoordinator: this broker, once what its coordinator needs is there; and who else is asked for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import FIND_COORDINATOR
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    GROUP_KEY,
    SHARE_KEY,
    TRANSACTION_KEY,
    FindCoordinatorRequest,
)

from .client import Client, versions_of

MANY_SINCE = 4
NOBODY = (-1, "", -1)


def request(version: int, *keys: str, key_type: int = GROUP_KEY) -> FindCoordinatorRequest:
    """Ask as that version does."""
    if version >= MANY_SINCE:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    return FindCoordinatorRequest(key=keys[0], key_type=key_type)


def this_broker(broker: Broker) -> tuple[int, str, int]:
    """What clients are told of it."""
    own = broker.cluster.this_broker("PLAINTEXT")
    return own.node_id, own.host, own.port


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR, last=MANY_SINCE - 1))
async def test_find_coordinator_of_one_key(client: Client, broker: Broker, version: int) -> None:
    response = await client.ask(FIND_COORDINATOR, version, request(version, "group"))
    assert (response.error_code, response.error_message) == (0, "NONE" if version else None)
    assert (response.node_id, response.host, response.port) == this_broker(broker)


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR, MANY_SINCE))
async def test_find_coordinator_of_many_keys(client: Client, broker: Broker, version: int) -> None:
    response = await client.ask(FIND_COORDINATOR, version, request(version, "one", "two"))
    assert [coordinator.key for coordinator in response.coordinators] == ["one", "two"]
    for coordinator in response.coordinators:
        assert (coordinator.error_code, coordinator.error_message) == (0, "")
        assert (coordinator.node_id, coordinator.host, coordinator.port) == this_broker(broker)


@pytest.mark.parametrize(
    ("key_type", "name", "config"),
    [
        (
            GROUP_KEY,
            "__consumer_offsets",
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
        ),
        (
            TRANSACTION_KEY,
            "__transaction_state",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
    ],
)
async def test_find_coordinator_creates_the_internal_topic_at_the_first_request(
    client: Client, broker: Broker, key_type: int, name: str, config: Mapping[str, str]
) -> None:
    assert len(broker.topics) == 0
    for _ in range(2):
        await client.ask(FIND_COORDINATOR, 3, request(3, "key", key_type=key_type))
    (topic,) = broker.topics
    assert (topic.name, len(topic.partitions), topic.overrides) == (name, 50, config)
    assert topic.is_internal


async def test_find_coordinator_creates_the_internal_topic_with_the_configured_partitions() -> None:
    async with running_broker({"offsets.topic.num.partitions": 3}) as broker:
        await Client(broker).ask(FIND_COORDINATOR, 3, request(3, "group"))
        assert len(broker.topics.get("__consumer_offsets").partitions) == 3


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR, 1))
@pytest.mark.parametrize(
    ("key_type", "since"),
    [(GROUP_KEY, 0), (TRANSACTION_KEY, 1), (SHARE_KEY, 6), (3, 99), (-1, 99), (127, 99)],
)
async def test_find_coordinator_by_key_type(client: Client, version: int, key_type: int, since: int) -> None:
    response = await client.ask(FIND_COORDINATOR, version, request(version, "key", key_type=key_type))
    found = response.coordinators[0] if version >= MANY_SINCE else response
    if version < since:
        assert found.error_code == ErrorCode.INVALID_REQUEST
    elif key_type == SHARE_KEY:
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        assert found.error_code == 0
    assert bool(found.error_code) == ((found.node_id, found.host, found.port) == NOBODY)


async def test_find_coordinator_without_keys(client: Client) -> None:
    assert (await client.ask(FIND_COORDINATOR, 4, request(4))).coordinators == []


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR))
async def test_find_coordinator_without_a_coordinator(version: int) -> None:
    async with running_broker({"plugins.blocked": "coordinator"}) as broker:
        response = await Client(broker).ask(FIND_COORDINATOR, version, request(version, "group"))
        found = response.coordinators[0] if version >= MANY_SINCE else response
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (found.node_id, found.host, found.port) == NOBODY
