"""DeleteGroups (API 42): delete groups without members, with their offsets."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

DELETED_AT_ONCE = 20
"""Most groups that are deleted in one step; other requests are served between steps."""


async def handle(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group independently; one that is repeated has one result."""
    group_ids = list(dict.fromkeys(request.groups_names))
    results: list[DeletableGroupResult] = []
    pace = Pace()
    for start in range(0, len(group_ids), DELETED_AT_ONCE):
        some = group_ids[start : start + DELETED_AT_ONCE]
        try:
            outcomes = await context.broker.coordinator.groups.delete(some)
        except BrokerError as error:
            outcomes = [error] * len(some)
        results += [
            DeletableGroupResult(
                group_id=group_id,
                error_code=0 if error is None else error_code(error),
                error_message=None if error is None else context.error_message(error),
            )
            for group_id, error in zip(some, outcomes, strict=True)
        ]
        await pace.turn()
    return DeleteGroupsResponse(results=results)
