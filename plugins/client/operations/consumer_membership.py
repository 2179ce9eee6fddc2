"""ConsumerGroupHeartbeat: the one request of a member of a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.cluster import CoordinatorKey
from tidelog.plugins.client.errors import ErrorResponse, UnsupportedByBroker, UnsupportedGroupProtocol
from tidelog.plugins.client.operations.coordinators import ask_coordinator_once, forget_if_moved
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )

EPOCH_TO_JOIN: Final = 0
EPOCH_TO_LEAVE: Final = -1
EPOCH_TO_LEAVE_FOR_A_WHILE: Final = -2
"""Of a static member: its partitions wait for it until its session ends."""


def consumer_heartbeat(
    session: Session, request: ConsumerGroupHeartbeatRequest
) -> Steps[ConsumerGroupHeartbeatResponse]:
    """Return the coordinator's answer; without a retry.

    Raises:
        UnsupportedGroupProtocol: the coordinator does not serve the protocol.
        UnsendableRequest: it does not know a field of the request.
        ErrorResponse: it refuses.
        ClientError: there is no coordinator, or it did not answer.
    """
    key = CoordinatorKey.group(request.group_id)
    try:
        answer: ConsumerGroupHeartbeatResponse = yield from ask_coordinator_once(session, key, request)
    except UnsupportedByBroker as error:
        raise UnsupportedGroupProtocol(request.group_id, str(error)) from error
    code = ErrorCode.of(answer.error_code)
    if code is ErrorCode.UNSUPPORTED_VERSION:
        raise UnsupportedGroupProtocol(request.group_id, answer.error_message or code.name)
    if code:
        refused = ErrorResponse(code, f"group {request.group_id!r}", answer.error_message)
        forget_if_moved(session, key, refused)
        raise refused
    return answer
