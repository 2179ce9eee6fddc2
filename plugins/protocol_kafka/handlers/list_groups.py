"""ListGroups (API 16): list the groups of both protocols."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Return all groups that match the filters."""
    try:
        groups = context.broker.coordinator.groups.list(request.states_filter, request.types_filter)
    except BrokerError as error:
        return ListGroupsResponse(error_code=error_code(error), groups=[])
    return ListGroupsResponse(
        error_code=0,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in groups
        ],
    )
