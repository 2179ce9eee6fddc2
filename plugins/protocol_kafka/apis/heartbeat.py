"""Heartbeat (API 12): extend the session of a classic group's member."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Extend the member's session; the error code is REBALANCE_IN_PROGRESS during a rebalance."""
    try:
        context.broker.coordinator.groups.heartbeat(
            request.group_id, request.member_id, request.generation_id, request.group_instance_id
        )
    except BrokerError as error:
        return HeartbeatResponse(error_code=error_code(error))
    return HeartbeatResponse(error_code=0)
