"""What follows from each error of a request about a group."""

from __future__ import annotations

from tests.tables import for_each
from tidelog.plugins.client.consumer.group_errors import GroupReaction, GroupRequest, reaction_to
from tidelog.plugins.client.errors import (
    BrokerClosed,
    ClientError,
    ErrorResponse,
    ProtocolError,
    RequestTimedOut,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

JOIN, SYNC, BEAT, CONSUMER_BEAT, COMMIT, FETCH = GroupRequest
RETRY, REBALANCE, REJOIN, RAISE, NONE = GroupReaction
MEMBERSHIP = (JOIN, SYNC, BEAT, CONSUMER_BEAT)

TABLE = {
    # The coordinator is another one, or not there yet.
    ErrorCode.NOT_COORDINATOR: dict.fromkeys((*MEMBERSHIP, FETCH), RETRY),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: dict.fromkeys((*MEMBERSHIP, FETCH), RETRY),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: dict.fromkeys((*MEMBERSHIP, FETCH), RETRY),
    # It does not know the member, or the whole group.
    ErrorCode.UNKNOWN_MEMBER_ID: {**dict.fromkeys((*MEMBERSHIP, COMMIT), REJOIN), FETCH: RETRY},
    ErrorCode.GROUP_ID_NOT_FOUND: {**dict.fromkeys((*MEMBERSHIP, COMMIT), REJOIN), FETCH: RETRY},
    ErrorCode.ILLEGAL_GENERATION: dict.fromkeys((*MEMBERSHIP, COMMIT), REJOIN),
    ErrorCode.FENCED_MEMBER_EPOCH: {CONSUMER_BEAT: REJOIN},
    ErrorCode.STALE_MEMBER_EPOCH: {FETCH: RETRY, COMMIT: NONE},
    # Others join.
    ErrorCode.REBALANCE_IN_PROGRESS: {JOIN: RETRY, SYNC: REBALANCE, BEAT: REBALANCE, COMMIT: NONE},
    # Another process has the instance id.
    ErrorCode.FENCED_INSTANCE_ID: dict.fromkeys((*MEMBERSHIP, COMMIT), RAISE),
    ErrorCode.UNRELEASED_INSTANCE_ID: {CONSUMER_BEAT: RAISE},
    # For the user.
    ErrorCode.GROUP_AUTHORIZATION_FAILED: {**dict.fromkeys((*MEMBERSHIP, FETCH), RAISE), COMMIT: NONE},
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: {CONSUMER_BEAT: RAISE, FETCH: RAISE, COMMIT: NONE},
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: {JOIN: RAISE, SYNC: RAISE},
    ErrorCode.INVALID_SESSION_TIMEOUT: {JOIN: RAISE},
    ErrorCode.GROUP_MAX_SIZE_REACHED: {JOIN: RAISE, CONSUMER_BEAT: RAISE},
    ErrorCode.UNSUPPORTED_ASSIGNOR: {CONSUMER_BEAT: RAISE},
    ErrorCode.INVALID_REQUEST: {CONSUMER_BEAT: RAISE},
    ErrorCode.OFFSET_METADATA_TOO_LARGE: {COMMIT: NONE},
    ErrorCode.UNSTABLE_OFFSET_COMMIT: {FETCH: RETRY},
    ErrorCode.UNKNOWN_SERVER_ERROR: {**dict.fromkeys((*MEMBERSHIP, FETCH), RAISE), COMMIT: NONE},
}


@for_each(
    ("code", "request_", "expected"),
    [(code, request, expected) for code, row in TABLE.items() for request, expected in row.items()],
)
def test_reaction_to_an_error_code(code: ErrorCode, request_: GroupRequest, expected: GroupReaction) -> None:
    assert reaction_to(request_, ErrorResponse(code, "group 'g'")) is expected


@for_each(
    ("error", "expected"),
    [
        (BrokerClosed("b:1", "Heartbeat v4", "gone"), RETRY),
        (RequestTimedOut("Heartbeat", 30.0), RETRY),
        (ProtocolError("b:1", "Heartbeat", 4, "nonsense"), RAISE),
    ],
)
def test_errors_of_the_network_are_retried_and_those_of_a_broken_peer_are_not(
    error: ClientError, expected: GroupReaction
) -> None:
    for request in MEMBERSHIP:
        assert reaction_to(request, error) is expected
