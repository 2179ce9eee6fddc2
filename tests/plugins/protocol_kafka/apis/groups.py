"""Requests of group members, version by version, and a broker that does not let them wait."""

from __future__ import annotations

from collections.abc import Sequence

from tests.plugins.protocol_kafka.apis.client import Client
from tidelog.plugins.protocol_kafka.messages.api import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.plugins.protocol_kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from tidelog.plugins.protocol_kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

IMPATIENT = {"coordinator": "memory", "group.initial.rebalance.delay.ms": 0}
"""Settings of a broker whose groups begin with their first member."""


def join_request(
    member_id: str = "",
    *,
    group_id: str = "g",
    instance: str | None = None,
    session_ms: int = 10_000,
    protocols: Sequence[str] = ("range",),
) -> JoinGroupRequest:
    """A consumer joins."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"meta") for name in protocols],
    )


async def join(client: Client, version: int, request: JoinGroupRequest) -> JoinGroupResponse:
    """Join in that version, with the detour for an id that later versions take."""
    response: JoinGroupResponse = await client.ask(JOIN_GROUP, version, request)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = response.member_id
        response = await client.ask(JOIN_GROUP, version, request)
    return response


async def sync(
    client: Client, version: int, joined: JoinGroupResponse, *, group_id: str = "g"
) -> SyncGroupResponse:
    """The leader, alone in its group, gives itself `share`."""
    named = version >= 5
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer" if named else None,
        protocol_name="range" if named else None,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"share")],
    )
    response: SyncGroupResponse = await client.ask(SYNC_GROUP, version, request)
    return response


async def stable(client: Client, group_id: str = "g") -> JoinGroupResponse:
    """A stable group of one member."""
    joined = await join(client, 9, join_request(group_id=group_id))
    assert joined.error_code == 0
    assert (await sync(client, 5, joined, group_id=group_id)).error_code == 0
    return joined


async def beat(client: Client, version: int, member_id: str, generation: int, group_id: str = "g") -> int:
    """The code of a heartbeat's answer."""
    request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    code: int = (await client.ask(HEARTBEAT, version, request)).error_code
    return code


async def leave(client: Client, version: int, *member_ids: str, group_id: str = "g") -> LeaveGroupResponse:
    """Members leave."""
    request = LeaveGroupRequest(group_id=group_id)
    if version >= 3:
        request.members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
    else:
        (request.member_id,) = member_ids
    response: LeaveGroupResponse = await client.ask(LEAVE_GROUP, version, request)
    return response
