"""LeaveGroup (API 13): one member in old versions, several from version 3 on."""

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
"""More leave one after the other, so that other requests have their turn."""


async def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Let members go."""
    many = context.api_version >= MANY_SINCE
    leaving = [
        LeavingMember(member.member_id, member.group_instance_id, member.reason) for member in request.members
    ]
    if not many:
        leaving = [LeavingMember(request.member_id)]
    outcomes: list[LeaveOutcome] = []
    pace = Pace()
    try:
        for start in range(0, max(len(leaving), 1), LEAVING_AT_ONCE):
            some = leaving[start : start + LEAVING_AT_ONCE]
            outcomes += await context.broker.coordinator.groups.leave(request.group_id, some)
            await pace.turn()
    except BrokerError as error:
        return LeaveGroupResponse(error_code=error_code(error))
    if not many:
        return LeaveGroupResponse(error_code=_code(outcomes[0]))
    return LeaveGroupResponse(error_code=0, members=[_answer(outcome) for outcome in outcomes])


def _answer(outcome: LeaveOutcome) -> MemberResponse:
    return MemberResponse(
        member_id=outcome.member.member_id,
        group_instance_id=outcome.member.group_instance_id,
        error_code=_code(outcome),
    )


def _code(outcome: LeaveOutcome) -> int:
    return 0 if outcome.error is None else error_code(outcome.error)
