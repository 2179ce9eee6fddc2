"""Configuration of groups: altered, described, in effect for the heartbeats of its members."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import CONSUMER_GROUP_HEARTBEAT, DESCRIBE_CONFIGS
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    GROUP_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import APPEND, DELETE, SET

from .client import Client
from .test_alter_configs import Change, increment
from .topics import new_topic

INTERVAL, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
GROUP_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 8, 4, 5


async def alter(client: Client, *changes: Change, name: str = "flights", **more: Any) -> int:
    """The error code."""
    code: int = (await increment(client, *changes, kind=GROUP_RESOURCE, name=name, **more)).error_code
    return code


async def describe(client: Client, name: str = "flights") -> dict[str, Any]:
    """Each key's description."""
    resource = DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await client.ask(DESCRIBE_CONFIGS, 4, request)).results
    return {entry.name: entry for entry in result.configs}


async def heartbeat_interval_ms(client: Client, member_epoch: int = 0) -> int:
    """What the group tells a member."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="flights",
        member_id="m",
        member_epoch=member_epoch,
        rebalance_timeout_ms=1000 if member_epoch == 0 else -1,
        subscribed_topic_names=["flights"] if member_epoch == 0 else None,
        topic_partitions=[] if member_epoch == 0 else None,
    )
    answer = await client.ask(CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert answer.error_code == 0
    interval: int = answer.heartbeat_interval_ms
    return interval


async def test_incremental_alter_configs_of_a_group_is_described_and_deleted(client: Client) -> None:
    assert await alter(client, (INTERVAL, SET, "6000"), (SESSION, SET, "50000")) == 0
    entry = (await describe(client))[INTERVAL]
    assert (entry.value, entry.config_source, entry.read_only) == ("6000", GROUP_SOURCE, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms] == [
        (INTERVAL, "6000", GROUP_SOURCE),
        (f"group.{INTERVAL}", "5000", DEFAULT_SOURCE),
    ]
    assert (await describe(client, "another"))[INTERVAL].value == "5000"
    assert await alter(client, (INTERVAL, DELETE, None), ("no.such.key", DELETE, None)) == 0
    described = await describe(client)
    assert (described[INTERVAL].value, described[INTERVAL].config_source) == ("5000", DEFAULT_SOURCE)
    assert described[SESSION].value == "50000"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((SESSION, SET, "44999"), ErrorCode.INVALID_CONFIG),
        ((SESSION, SET, "60001"), ErrorCode.INVALID_CONFIG),
        ((INTERVAL, SET, "4999"), ErrorCode.INVALID_CONFIG),
        ((INTERVAL, SET, "15001"), ErrorCode.INVALID_CONFIG),
        ((INTERVAL, SET, "soon"), ErrorCode.INVALID_CONFIG),
        ((INTERVAL, APPEND, "1"), ErrorCode.INVALID_CONFIG),
        ((INTERVAL, SET, None), ErrorCode.INVALID_REQUEST),
        (("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("share.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_incremental_alter_configs_of_a_group_refuses(
    client: Client, broker: Broker, change: Change, code: ErrorCode
) -> None:
    assert await alter(client, ("consumer.assignment.interval.ms", SET, "5"), change) == code
    assert broker.resource_configs.settings("group", "flights") == {}


async def test_incremental_alter_configs_of_a_group_without_a_name_is_refused(client: Client) -> None:
    assert await alter(client, (SESSION, SET, "50000"), name="") == ErrorCode.INVALID_REQUEST


async def test_incremental_alter_configs_of_a_group_with_validate_only_changes_nothing(
    client: Client, broker: Broker
) -> None:
    assert await alter(client, (SESSION, SET, "50000"), validate_only=True) == 0
    assert broker.resource_configs.names("group") == []


async def test_a_session_timeout_of_a_group_is_above_its_heartbeat_interval() -> None:
    settings = {"group.consumer.min.session.timeout.ms": 6000}
    async with running_broker(settings) as broker:
        client = Client(broker)
        assert await alter(client, (SESSION, SET, "7000"), (INTERVAL, SET, "7000")) == (
            ErrorCode.INVALID_CONFIG
        )
        assert await alter(client, (SESSION, SET, "7001"), (INTERVAL, SET, "7000")) == 0
        assert await alter(client, (INTERVAL, SET, "7001")) == ErrorCode.INVALID_CONFIG


async def test_keys_of_a_group_have_the_values_of_the_broker(client: Client) -> None:
    async with running_broker({"group.consumer.heartbeat.interval.ms": 6000}) as broker:
        entry = (await describe(Client(broker)))[INTERVAL]
        assert (entry.value, entry.config_source) == ("6000", STATIC_SOURCE)
        assert await alter(Client(broker), (SESSION, SET, "50000")) == 0
        assert (await describe(Client(broker)))[INTERVAL].value == "6000"


async def test_heartbeat_interval_of_a_group_is_in_effect_at_once(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    await broker.coordinator.prepare_groups()
    await alter(client, (INTERVAL, SET, "6000"))
    assert await heartbeat_interval_ms(client) == 6000
    await alter(client, (INTERVAL, SET, "7000"))
    assert await heartbeat_interval_ms(client, member_epoch=1) == 7000
    await alter(client, (INTERVAL, DELETE, None))
    assert await heartbeat_interval_ms(client, member_epoch=1) == 5000
