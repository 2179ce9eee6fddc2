"""ListGroups (API 16): list the groups of both protocols."""

from __future__ import annotations

from collections.abc import Generator, Set
from functools import partial

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.coordination import groups as coordination
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.list_groups import (
    ListGroupsGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


@in_steps
def handle(context: RequestContext, request: ListGroupsRequest) -> Generator[None, None, ListGroupsResponse]:
    """Return all groups that match the filters, in steps."""
    states = set((yield from each_in_steps(request.states_filter, _without_case)))
    types = set((yield from each_in_steps(request.types_filter, _without_case)))
    try:
        groups = context.broker.coordinator.groups.list()
    except BrokerError as error:
        return ListGroupsResponse(error_code=error_code(error), groups=[])
    # Groups that do not match take their time as well: each is an item of a step.
    listed = yield from each_in_steps(groups, partial(_listed, states, types))
    return ListGroupsResponse(error_code=0, groups=[group for group in listed if group is not None])


def _without_case(name: str) -> str:
    return name.strip().lower()


def _listed(states: Set[str], types: Set[str], group: coordination.ListedGroup) -> ListGroupsGroup | None:
    """Return the entry of a group with one of these states and types, in lower case; none named means any."""
    if (states and group.state.lower() not in states) or (types and group.group_type not in types):
        return None
    return ListGroupsGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.group_type,
    )
