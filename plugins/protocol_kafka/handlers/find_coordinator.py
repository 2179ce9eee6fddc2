"""FindCoordinator (API 10): which broker coordinates a group or a transactional id."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code, error_message
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    GROUP_KEY,
    SHARE_KEY,
    TRANSACTION_KEY,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_OF = {GROUP_KEY: 0, TRANSACTION_KEY: 1, SHARE_KEY: 6}
MANY_KEYS_SINCE = 4
NO_NODE = -1


def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """One coordinator in old versions, one for each key from version 4 on."""
    if context.api_version >= MANY_KEYS_SINCE:
        found_by_key = [_find(context, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found_by_key)
    found = _find(context, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(context: RequestContext, key: str, key_type: int) -> Coordinator:
    try:
        since = FIRST_VERSION_OF.get(key_type)
        if since is None or context.api_version < since:
            raise InvalidRequest(f"version {context.api_version} has no coordinators of type {key_type}")
        broker = context.broker.cluster.coordinator_for(key, context.peer.listener_name)
    except BrokerError as error:
        return Coordinator(
            key=key,
            node_id=NO_NODE,
            host="",
            port=NO_NODE,
            error_code=error_code(error),
            error_message=error_message(error),
        )
    return Coordinator(
        key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=0, error_message=None
    )
