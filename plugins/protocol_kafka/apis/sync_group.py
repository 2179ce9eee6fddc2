"""SyncGroup (API 14): answered with the member's assignment once the leader has sent it."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.kernel.errors import BrokerError, InconsistentGroupProtocol
from tidelog.kernel.pace import each_in_steps, run_in_steps
from tidelog.kernel.seams.coordination.groups import Assignment, Synced, SyncRequest
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.plugins.schema.layout import FEW_ELEMENTS

PROTOCOL_SINCE = 5


def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Return the member's assignment; wait for the leader's SyncGroup."""
    try:
        if context.api_version >= PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
            raise InconsistentGroupProtocol("protocol type and name are missing")
        if len(request.assignments) > FEW_ELEMENTS:
            return _sync_many(context, request)
        shares = [_assignment(share) for share in request.assignments]
        synced = context.broker.coordinator.groups.sync(_asked(request, shares))
    except BrokerError as error:
        return _refused(error)
    return _answer(synced) if isinstance(synced, Synced) else _wait(synced)


async def _sync_many(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    """Take the assignments of very many members in steps."""
    shares = await run_in_steps(each_in_steps(request.assignments, _assignment))
    try:
        synced = context.broker.coordinator.groups.sync(_asked(request, shares))
    except BrokerError as error:
        return _refused(error)
    return _answer(synced) if isinstance(synced, Synced) else await _wait(synced)


def _assignment(share: SyncGroupRequestAssignment) -> Assignment:
    return Assignment(share.member_id, share.assignment)


def _asked(request: SyncGroupRequest, shares: list[Assignment]) -> SyncRequest:
    return SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=shares,
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
