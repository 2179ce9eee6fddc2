"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in every version."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.plugins.protocol_kafka.apis.client import Client, versions_of
from tests.plugins.protocol_kafka.apis.groups import (
    IMPATIENT,
    beat,
    join,
    join_request,
    leave,
    stable,
    sync,
)
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.plugins.protocol_kafka.messages.sync_group import SyncGroupRequest


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A broker whose groups begin with their first member."""
    async with running_broker(IMPATIENT) as broker:
        yield broker


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
async def test_join_group_in_every_version(client: Client, version: int) -> None:
    joined = await join(client, version, join_request(instance="i" if version >= 5 else None))
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("i-" if version >= 5 else "tests-")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    (member,) = joined.members
    assert (member.member_id, member.metadata) == (joined.member_id, b"meta")
    assert member.group_instance_id == ("i" if version >= 5 else None)


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
async def test_join_group_returns_a_member_id_to_new_members_since_version_4(
    client: Client, version: int
) -> None:
    first = await client.ask(JOIN_GROUP, version, join_request())
    if version < 4:
        assert first.error_code == 0
    else:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert (first.generation_id, first.leader, first.members) == (-1, "", [])
    assert first.member_id


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_join_group_refuses_invalid_members(
    client: Client, version: int, change: dict[str, str], code: ErrorCode
) -> None:
    refused = await client.ask(JOIN_GROUP, version, join_request(**change))  # type: ignore[arg-type]
    assert refused.error_code == code
    assert refused.member_id == change.get("member_id", "")
    assert refused.protocol_name == (None if version >= 7 else "")


async def test_join_group_in_version_0_has_one_timeout_for_session_and_rebalance(
    client: Client, broker: Broker
) -> None:
    request = join_request(session_ms=12_000)
    request.rebalance_timeout_ms = -1
    joined = await join(client, 0, request)
    entry = broker.coordinator.groups._registry.find("g")  # type: ignore[attr-defined]  # pyright: ignore
    assert entry.group.members[joined.member_id].rebalance_timeout_ms == 12_000


@pytest.mark.parametrize("version", versions_of(SYNC_GROUP))
async def test_sync_group_in_every_version(client: Client, version: int) -> None:
    joined = await join(client, 9, join_request())
    synced = await sync(client, version, joined)
    assert (synced.error_code, synced.assignment) == (0, b"share")
    assert (synced.protocol_type, synced.protocol_name) == (
        ("consumer", "range") if version >= 5 else (None, None)
    )


@pytest.mark.parametrize("version", versions_of(SYNC_GROUP))
async def test_sync_group_of_an_unknown_member(client: Client, version: int) -> None:
    joined = await stable(client)
    joined.member_id = "stranger"
    refused = await sync(client, version, joined)
    assert (refused.error_code, refused.assignment) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")


async def test_sync_group_checks_the_protocol_since_version_5(client: Client) -> None:
    joined = await stable(client)
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, protocol_type="consumer", assignments=[]
    )
    refused = await client.ask(SYNC_GROUP, 5, request)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions_of(HEARTBEAT))
async def test_heartbeat_in_every_version(client: Client, version: int) -> None:
    joined = await stable(client)
    assert await beat(client, version, joined.member_id, 1) == 0
    assert await beat(client, version, joined.member_id, 7) == ErrorCode.ILLEGAL_GENERATION
    assert await beat(client, version, "stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await beat(client, version, joined.member_id, 1, "other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await beat(client, version, joined.member_id, 1, "") == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions_of(HEARTBEAT, 3))
async def test_heartbeat_of_a_fenced_instance(client: Client, version: int) -> None:
    await join(client, 9, join_request(instance="i"))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="other", group_instance_id="i")
    assert (await client.ask(HEARTBEAT, version, request)).error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", versions_of(LEAVE_GROUP))
async def test_leave_group_in_every_version(client: Client, version: int) -> None:
    joined = await stable(client)
    left = await leave(client, version, joined.member_id)
    assert left.error_code == 0
    if version >= 3:
        assert [(member.member_id, member.error_code) for member in left.members] == [(joined.member_id, 0)]
    again = await leave(client, version, joined.member_id)
    code = again.members[0].error_code if version >= 3 else again.error_code
    assert code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await leave(client, version, "m", group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions_of(LEAVE_GROUP, 3))
async def test_leave_group_of_several_members(client: Client, version: int) -> None:
    await join(client, 9, join_request(instance="i"))
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            MemberIdentity(member_id="stranger"),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id="", group_instance_id="other"),
        ],
    )
    left = await client.ask(LEAVE_GROUP, version, request)
    assert left.error_code == 0
    assert [(member.group_instance_id, member.error_code) for member in left.members] == [
        (None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("i", 0),
        ("other", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


async def test_join_group_and_sync_group_are_answered_when_the_broker_stops(
    client: Client, broker: Broker
) -> None:
    joined = await stable(client)
    other = Client(broker)
    # The first request of a codec to the coordinator waits for a thread that imports it.
    assert await beat(other, 4, "unknown", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    async with trio.open_nursery() as nursery:
        codes: list[int] = []

        async def wait() -> None:
            codes.append((await join(other, 3, join_request())).error_code)

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert await beat(client, 4, joined.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        broker.coordinator.release_waiters()
    assert codes == [ErrorCode.NOT_COORDINATOR]
    assert await beat(client, 4, joined.member_id, 1) == ErrorCode.NOT_COORDINATOR


async def test_join_group_heartbeat_and_leave_group_without_a_coordinator() -> None:
    async with running_broker({"plugins.blocked": "coordinator"}) as broker:
        client = Client(broker)
        assert (await join(client, 9, join_request())).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await beat(client, 4, "m", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await leave(client, 5, "m")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
