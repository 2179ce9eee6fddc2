"""FindCoordinator (API 10): which broker coordinates a group or a transactional id."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MANY_KEYS_SINCE = 4
NO_NODE = -1


def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """One coordinator in old versions, one for each key from version 4 on."""
    if context.api_version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=[_find(context, key) for key in request.coordinator_keys])
    found = _find(context, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(context: RequestContext, key: str) -> Coordinator:
    try:
        broker = context.broker.cluster.coordinator_for(key, context.peer.listener_name)
    except BrokerError as error:
        return Coordinator(
            key=key,
            node_id=NO_NODE,
            host="",
            port=NO_NODE,
            error_code=error_code(error),
            error_message=str(error),
        )
    return Coordinator(
        key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=0, error_message=None
    )
