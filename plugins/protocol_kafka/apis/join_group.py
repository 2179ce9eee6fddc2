"""JoinGroup (API 11): join a classic group; answered when its next generation begins."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.kernel.errors import (
    BrokerError,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    MemberIdRequired,
)
from tidelog.kernel.seams.coordination.groups import NO_MEMBER_ID, GroupProtocol, Joined, JoinRequest
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9
MAX_PROTOCOLS = 1000
"""Most protocols of a member; the group compares those of all its members in one step."""


def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Join the group; wait for the next generation."""
    version = context.api_version
    try:
        if len(request.protocols) > MAX_PROTOCOLS:
            raise InconsistentGroupProtocol(
                f"{len(request.protocols)} protocols, {MAX_PROTOCOLS} are possible"
            )
        joined = context.broker.coordinator.groups.join(_asked(context, request))
    except BrokerError as error:
        return _refused(request, error, version)
    return _answer(joined, version) if isinstance(joined, Joined) else _wait(request, joined, version)


def _asked(context: RequestContext, request: JoinGroupRequest) -> JoinRequest:
    version = context.api_version
    separate = version >= REBALANCE_TIMEOUT_SINCE
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        protocol_type=request.protocol_type,
        protocols=[GroupProtocol(protocol.name, protocol.metadata) for protocol in request.protocols],
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if separate else request.session_timeout_ms,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        group_instance_id=request.group_instance_id,
        reason=request.reason,
        knows_member_id_required=version >= MEMBER_ID_REQUIRED_SINCE,
        knows_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )


async def _wait(request: JoinGroupRequest, joined: Awaitable[Joined], version: int) -> JoinGroupResponse:
    try:
        return _answer(await joined, version)
    except BrokerError as error:
        return _refused(request, error, version)


def _answer(joined: Joined, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=_protocol_name(joined.protocol_name, version),
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ],
    )


def _refused(request: JoinGroupRequest, error: BrokerError, version: int) -> JoinGroupResponse:
    member_id = request.member_id
    if isinstance(error, MemberIdRequired):
        member_id = error.member_id
    elif isinstance(error, GroupMaxSizeReached):
        # The group has removed it, if it was a member: as in Kafka it joins as a new one.
        member_id = NO_MEMBER_ID
    return JoinGroupResponse(
        error_code=error_code(error),
        protocol_name=_protocol_name(None, version),
        leader=NO_MEMBER_ID,
        member_id=member_id,
        members=[],
    )


def _protocol_name(name: str | None, version: int) -> str | None:
    """Return the protocol's name; old versions have no null."""
    return name or (None if version >= NULL_PROTOCOL_SINCE else "")
