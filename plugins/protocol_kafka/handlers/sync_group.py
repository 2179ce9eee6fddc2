"""SyncGroup (API 14): answered with the member's assignment once the leader has sent it."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.kernel.errors import BrokerError, InconsistentGroupProtocol
from tidelog.kernel.seams.coordination.groups import Assignment, Synced, SyncRequest
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Return the member's assignment; wait for the leader's SyncGroup."""
    try:
        if context.api_version >= PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
            raise InconsistentGroupProtocol("protocol type and name are missing")
        synced = context.broker.coordinator.groups.sync(_asked(request))
    except BrokerError as error:
        return _refused(error)
    return _answer(synced) if isinstance(synced, Synced) else _wait(synced)


def _asked(request: SyncGroupRequest) -> SyncRequest:
    return SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=[Assignment(share.member_id, share.assignment) for share in request.assignments],
    )


async def _wait(synced: Awaitable[Synced]) -> SyncGroupResponse:
    try:
        return _answer(await synced)
    except BrokerError as error:
        return _refused(error)


def _answer(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=0,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol_name,
        assignment=synced.assignment,
    )


def _refused(error: BrokerError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error_code(error), assignment=b"")
