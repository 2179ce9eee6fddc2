"""LeaveGroup (API 13): remove one member, or from version 3 on several."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.coordination.groups import LeaveOutcome, LeavingMember
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

MANY_SINCE = 3
LEAVING_AT_ONCE = 1000
"""Most members that are removed in one step; other requests are served between steps."""


async def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members from the group."""
    if context.api_version < MANY_SINCE:
        return await _leave_alone(context, request)
    answers: list[MemberResponse] = []
    pace = Pace()
    try:
        # At least once: the group's errors come without any member, too.
        for start in range(0, max(len(request.members), 1), LEAVING_AT_ONCE):
            leaving = [
                LeavingMember(member.member_id, member.group_instance_id, member.reason)
                for member in request.members[start : start + LEAVING_AT_ONCE]
            ]
            outcomes = await context.broker.coordinator.groups.leave(request.group_id, leaving)
            answers += map(_answer, outcomes)
            await pace.turn()
    except BrokerError as error:
        return LeaveGroupResponse(error_code=error_code(error))
    return LeaveGroupResponse(error_code=0, members=answers)


async def _leave_alone(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    try:
        leaving = [LeavingMember(request.member_id)]
        (outcome,) = await context.broker.coordinator.groups.leave(request.group_id, leaving)
    except BrokerError as error:
        return LeaveGroupResponse(error_code=error_code(error))
    return LeaveGroupResponse(error_code=_code(outcome))


def _answer(outcome: LeaveOutcome) -> MemberResponse:
    return MemberResponse(
        member_id=outcome.member.member_id,
        group_instance_id=outcome.member.group_instance_id,
        error_code=_code(outcome),
    )


def _code(outcome: LeaveOutcome) -> int:
    return 0 if outcome.error is None else error_code(outcome.error)
