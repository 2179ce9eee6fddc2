"""ListPartitionReassignments (API 46): with one broker no partition is ever on its way to another."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """There are none; moves between the directories of this broker are told by DescribeLogDirs."""
    return ListPartitionReassignmentsResponse(topics=[])
