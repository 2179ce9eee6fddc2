"""DescribeGroups, ListGroups and DeleteGroups in every version."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.plugins.protocol_kafka.apis.client import Client, versions_of
from tests.plugins.protocol_kafka.apis.groups import IMPATIENT, leave, stable
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.common_fields import GROUP_OPERATIONS, NOT_ASKED
from tidelog.plugins.protocol_kafka.messages.api import DELETE_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS
from tidelog.plugins.protocol_kafka.messages.delete_groups import DeleteGroupsRequest
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A broker whose groups begin with their first member."""
    async with running_broker(IMPATIENT) as broker:
        yield broker


@pytest.mark.parametrize("version", versions_of(DESCRIBE_GROUPS))
async def test_describe_groups_in_every_version(client: Client, version: int) -> None:
    joined = await stable(client)
    request = DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=version >= 3)
    group, missing = (await client.ask(DESCRIBE_GROUPS, version, request)).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        joined.member_id,
        "tests",
        "/127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"share")
    assert group.authorized_operations == (GROUP_OPERATIONS if version >= 3 else NOT_ASKED)
    assert (missing.group_state, missing.members) == ("Dead", [])
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    # Kafka's own words, which its tools show.
    assert missing.error_message == ("Group none not found." if version >= 6 else None)


@pytest.mark.parametrize("version", versions_of(LIST_GROUPS))
async def test_list_groups_in_every_version(client: Client, version: int) -> None:
    joined = await stable(client, "empty")
    await leave(client, 5, joined.member_id, group_id="empty")
    await stable(client, "full")
    request = ListGroupsRequest()
    listed = await client.ask(LIST_GROUPS, version, request)
    assert listed.error_code == 0
    assert [(group.group_id, group.protocol_type) for group in listed.groups] == [
        ("empty", "consumer"),
        ("full", "consumer"),
    ]
    assert [group.group_state for group in listed.groups] == (
        ["Empty", "Stable"] if version >= 4 else ["", ""]
    )
    assert {group.group_type for group in listed.groups} == {"classic" if version >= 5 else ""}


@pytest.mark.parametrize("version", versions_of(LIST_GROUPS, 4))
async def test_list_groups_filters_by_state_and_type(client: Client, version: int) -> None:
    await stable(client)
    for states, found in (([" STABLE "], ["g"]), (["Empty", "Dead"], [])):
        listed = await client.ask(LIST_GROUPS, version, ListGroupsRequest(states_filter=states))
        assert [group.group_id for group in listed.groups] == found
    if version >= 5:
        for types, found in ((["Classic", "share"], ["g"]), (["consumer"], [])):
            listed = await client.ask(LIST_GROUPS, version, ListGroupsRequest(types_filter=types))
            assert [group.group_id for group in listed.groups] == found
        for states, found in ((["empty", "stable"], ["g"]), (["empty"], [])):
            both = ListGroupsRequest(states_filter=states, types_filter=["classic"])
            listed = await client.ask(LIST_GROUPS, version, both)
            assert [group.group_id for group in listed.groups] == found


@pytest.mark.parametrize("version", versions_of(DELETE_GROUPS))
async def test_delete_groups_in_every_version(client: Client, version: int) -> None:
    joined = await stable(client, "empty")
    await leave(client, 5, joined.member_id, group_id="empty")
    await stable(client, "full")
    request = DeleteGroupsRequest(groups_names=["empty", "full", "none", "empty"])
    results = (await client.ask(DELETE_GROUPS, version, request)).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("empty", 0),
        ("full", ErrorCode.NON_EMPTY_GROUP),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert [bool(result.error_message) for result in results] == [False, version >= 3, version >= 3]
    listed = await client.ask(LIST_GROUPS, 5, ListGroupsRequest())
    assert [group.group_id for group in listed.groups] == ["full"]


async def test_describe_groups_list_groups_and_delete_groups_without_a_coordinator() -> None:
    async with running_broker({"plugins.blocked": "coordinator"}) as broker:
        client = Client(broker)
        (described,) = (await client.ask(DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=["g"]))).groups
        assert described.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        listed = await client.ask(LIST_GROUPS, 5, ListGroupsRequest())
        assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        (deleted,) = (await client.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))).results
        assert deleted.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
