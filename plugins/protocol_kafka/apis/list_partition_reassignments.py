"""ListPartitionReassignments (API 46): none, as there is one broker."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return no reassignments; DescribeLogDirs reports moves between directories of this broker."""
    return ListPartitionReassignmentsResponse(topics=[])
