"""DeleteGroups (API 42)."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Each group by itself; one that is named twice is answered once."""
    group_ids = list(dict.fromkeys(request.groups_names))
    try:
        outcomes = await context.broker.coordinator.groups.delete(group_ids)
    except BrokerError as error:
        outcomes = [error] * len(group_ids)
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(
                group_id=group_id,
                error_code=0 if error is None else error_code(error),
                error_message=None if error is None else context.error_message(error),
            )
            for group_id, error in zip(group_ids, outcomes, strict=True)
        ]
    )
