"""DescribeGroups (API 15): describe classic groups."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import BrokerError, GroupIdNotFound
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.coordination.groups import DescribedMember
from tidelog.plugins.protocol_kafka.apis.common_fields import GROUP_OPERATIONS, NOT_ASKED
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_IS_AN_ERROR_SINCE = 6
STATE_OF_A_GROUP_THAT_IS_NOT_THERE = "Dead"


@in_steps
def handle(
    context: RequestContext, request: DescribeGroupsRequest
) -> Generator[None, None, DescribeGroupsResponse]:
    """Describe each group independently, in steps, and once if it is repeated: it may have many members."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups: list[DescribeGroupsGroup] = []
    for group_id in dict.fromkeys(request.groups):
        groups.append((yield from _describe(context, group_id, operations)))
        yield
    return DescribeGroupsResponse(groups=groups)


def _describe(
    context: RequestContext, group_id: str, operations: int
) -> Generator[None, None, DescribeGroupsGroup]:
    try:
        described = context.broker.coordinator.groups.describe(group_id)
    except GroupIdNotFound as error:
        return _not_found(context, group_id, error, operations)
    except BrokerError as error:
        return _without_members(group_id, error_code(error), context.error_message(error), "")
    return DescribeGroupsGroup(
        error_code=0,
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=(yield from each_in_steps(described.members, _member)),
        authorized_operations=operations,
    )


def _member(member: DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


def _not_found(
    context: RequestContext, group_id: str, error: GroupIdNotFound, operations: int
) -> DescribeGroupsGroup:
    """Return the result for an unknown group: before version 6 one in state Dead, without an error."""
    state = STATE_OF_A_GROUP_THAT_IS_NOT_THERE
    if context.api_version >= NOT_FOUND_IS_AN_ERROR_SINCE:
        return _without_members(group_id, error_code(error), context.error_message(error), state)
    return _without_members(group_id, 0, None, state, operations)


def _without_members(
    group_id: str, code: int, message: str | None, state: str, operations: int = NOT_ASKED
) -> DescribeGroupsGroup:
    return DescribeGroupsGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=operations,
    )
