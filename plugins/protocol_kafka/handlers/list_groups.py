"""ListGroups (API 16): list the groups of both protocols."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.coordination import groups as coordination
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(context: RequestContext, request: ListGroupsRequest) -> Generator[None, None, ListGroupsResponse]:
    """Return all groups that match the filters, in steps."""
    states = set((yield from each_in_steps(request.states_filter, _without_case)))
    types = set((yield from each_in_steps(request.types_filter, _without_case)))
    try:
        groups = context.broker.coordinator.groups.list(states, types)
    except BrokerError as error:
        return ListGroupsResponse(error_code=error_code(error), groups=[])
    return ListGroupsResponse(error_code=0, groups=(yield from each_in_steps(groups, _listed)))


def _without_case(name: str) -> str:
    return name.strip().lower()


def _listed(group: coordination.ListedGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.group_type,
    )
