"""ListConfigResources: topics, this broker, groups and subscriptions to client metrics, by type."""

from __future__ import annotations

import pytest

from tidelog.kernel.broker import Broker
from tidelog.plugins.protocol_kafka.messages.api import LIST_CONFIG_RESOURCES
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

from .client import Client
from .topics import new_topic

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


async def listed(client: Client, types: list[int], version: int = 1) -> ListConfigResourcesResponse:
    """List resources."""
    request = ListConfigResourcesRequest(resource_types=types)
    answer: ListConfigResourcesResponse = await client.ask(LIST_CONFIG_RESOURCES, version, request)
    return answer


async def configure_resources(broker: Broker) -> None:
    """Configure the group `pilots` and the subscription `slow-clients`."""
    alter = broker.controller.alter_resource_configs
    await alter("group", [("pilots", lambda _: {"consumer.session.timeout.ms": "50000"})])
    await alter("client-metrics", [("slow-clients", lambda _: {"interval.ms": "1000"})])


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (
            [],
            {
                (TOPIC, "flights"),
                (TOPIC, "planes"),
                (BROKER, "1"),
                (BROKER_LOGGER, "1"),
                (CLIENT_METRICS, "slow-clients"),
                (GROUP, "pilots"),
            },
        ),
        ([TOPIC], {(TOPIC, "flights"), (TOPIC, "planes")}),
        ([BROKER, BROKER], {(BROKER, "1")}),
        ([BROKER_LOGGER], {(BROKER_LOGGER, "1")}),
        ([CLIENT_METRICS], {(CLIENT_METRICS, "slow-clients")}),
        ([GROUP], {(GROUP, "pilots")}),
    ],
)
async def test_list_config_resources_by_types(
    client: Client, broker: Broker, types: list[int], expected: set[tuple[int, str]]
) -> None:
    for name in ("flights", "planes"):
        await new_topic(broker, name)
    await configure_resources(broker)
    answer = await listed(client, types)
    assert answer.error_code == 0
    found = [(resource.resource_type, resource.resource_name) for resource in answer.config_resources]
    assert len(found) == len(expected)
    assert set(found) == expected


async def test_list_config_resources_in_version_0_lists_client_metrics_only(
    client: Client, broker: Broker
) -> None:
    await new_topic(broker, "flights")
    await configure_resources(broker)
    answer = await listed(client, [], version=0)
    assert answer.error_code == 0
    assert [resource.resource_name for resource in answer.config_resources] == ["slow-clients"]


@pytest.mark.parametrize("types", [[0], [TOPIC, 99], [-1]])
async def test_list_config_resources_refuses_unknown_types(client: Client, types: list[int]) -> None:
    answer = await listed(client, types)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
