"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: from the wire to the group and back."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import (
    CONSUMER_MEMBER,
    NO_AUTHORIZED_OPERATIONS,
    UNKNOWN_MEMBER_TYPE,
    ConsumerGroupDescribeRequest,
)
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest

from .client import Client, versions_of

GROUP = "g"


@pytest.fixture
async def topic_id(broker: Broker) -> bytes:
    """The id of the topic `t`, whose group coordinator is ready."""
    await broker.coordinator.prepare_groups()
    return (await broker.topics.ensure("t")).topic_id.bytes


def request(member_id: str = "m", epoch: int = 0, **rest: Any) -> ConsumerGroupHeartbeatRequest:
    """A request; when it joins, to topic `t`."""
    joining: dict[str, Any] = {
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    given: dict[str, Any] = (joining if epoch == 0 else {}) | rest
    return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **given)


async def heartbeat(client: Client, version: int = 1, **rest: Any) -> Any:
    """Its answer."""
    return await client.ask(CONSUMER_GROUP_HEARTBEAT, version, request(**rest))


@pytest.mark.parametrize("version", versions_of(CONSUMER_GROUP_HEARTBEAT))
async def test_consumer_group_heartbeat_joins_keeps_and_leaves(
    version: int, client: Client, topic_id: bytes
) -> None:
    joined = await heartbeat(client, version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 1)
    assert joined.heartbeat_interval_ms == 5_000
    assert joined.assignment.topic_partitions == [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=[0])
    ]
    stays = await heartbeat(client, version, epoch=1, topic_partitions=joined.assignment.topic_partitions)
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (0, 1, None)
    left = await heartbeat(client, version, epoch=-1)
    assert (left.error_code, left.member_epoch, left.heartbeat_interval_ms) == (0, -1, 0)


async def test_consumer_group_heartbeat_generates_member_ids_in_version_0_only(
    client: Client, topic_id: bytes
) -> None:
    assert (await heartbeat(client, 0, member_id="")).member_id
    assert (await heartbeat(client, 1, member_id="")).error_code == ErrorCode.INVALID_REQUEST


ERRORS: list[tuple[ErrorCode, dict[str, Any]]] = [
    (ErrorCode.GROUP_ID_NOT_FOUND, {"group_id": "other", "epoch": 1}),
    (ErrorCode.INVALID_REQUEST, {"epoch": -3}),
    (ErrorCode.UNKNOWN_MEMBER_ID, {"member_id": "n", "epoch": 1}),
    (ErrorCode.FENCED_MEMBER_EPOCH, {"epoch": 5}),
    (ErrorCode.FENCED_INSTANCE_ID, {"epoch": 1, "instance_id": "i"}),
    (ErrorCode.UNRELEASED_INSTANCE_ID, {"member_id": "n", "instance_id": "i"}),
    (ErrorCode.UNSUPPORTED_ASSIGNOR, {"epoch": 1, "server_assignor": "sticky"}),
    (ErrorCode.INVALID_REGULAR_EXPRESSION, {"epoch": 1, "subscribed_topic_regex": "("}),
]


@pytest.mark.parametrize(("code", "asked"), ERRORS, ids=lambda value: getattr(value, "name", ""))
async def test_consumer_group_heartbeat_error_codes(
    code: ErrorCode, asked: dict[str, Any], client: Client, topic_id: bytes
) -> None:
    await heartbeat(client)
    await heartbeat(client, member_id="static", instance_id="i")
    group_id = asked.get("group_id", GROUP)
    sent = request(**{name: value for name, value in asked.items() if name != "group_id"})
    sent.group_id = group_id
    answer = await client.ask(CONSUMER_GROUP_HEARTBEAT, 1, sent)
    assert answer.error_code == code
    assert answer.error_message
    assert (answer.member_epoch, answer.assignment) == (0, None)


@pytest.mark.parametrize("version", versions_of(CONSUMER_GROUP_DESCRIBE))
async def test_consumer_group_describe_in_every_version(
    version: int, client: Client, topic_id: bytes
) -> None:
    await heartbeat(client, rack_id="r")
    asked = ConsumerGroupDescribeRequest(group_ids=[GROUP, "n"], include_authorized_operations=False)
    group, missing = (await client.ask(CONSUMER_GROUP_DESCRIBE, version, asked)).groups
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    assert group.authorized_operations == NO_AUTHORIZED_OPERATIONS
    (member,) = group.members
    assert (member.client_id, member.client_host, member.rack_id) == ("tests", "/127.0.0.1", "r")
    assert member.member_type == (CONSUMER_MEMBER if version else UNKNOWN_MEMBER_TYPE)
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id, "t", [0])
    assert member.target_assignment.topic_partitions == [assigned]
    assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "n")


async def test_list_groups_and_describe_groups_of_a_consumer_group(client: Client, topic_id: bytes) -> None:
    await heartbeat(client)
    (listed,) = (await client.ask(LIST_GROUPS, 5, ListGroupsRequest())).groups
    assert (listed.group_id, listed.protocol_type, listed.group_type) == (GROUP, "consumer", "consumer")
    asked = DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=False)
    (described,) = (await client.ask(DESCRIBE_GROUPS, 6, asked)).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_api_versions_announces_the_feature_group_version(client: Client) -> None:
    answer = await client.ask(
        API_VERSIONS, 4, ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    )
    supported = {
        feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features
    }
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert supported["group.version"] == (0, 1)
    assert finalized["group.version"] == 1
