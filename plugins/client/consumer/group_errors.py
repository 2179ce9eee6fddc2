"""What follows from an error of a request about a group, by the request: one table for both protocols.

Source: Apache Kafka 4.4, the response handlers of `AbstractCoordinator` and `ConsumerCoordinator`, and
`AbstractHeartbeatRequestManager`, `CommitRequestManager`. Other than those, the loss of a whole group
(GROUP_ID_NOT_FOUND, as after a restart with an older copy of the data) makes a member join again as any
other loss of its membership does.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


class GroupRequest(Enum):
    """Request of a member to the coordinator; LeaveGroup is missing, whose errors make no difference."""

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    CONSUMER_HEARTBEAT = "ConsumerGroupHeartbeat"
    COMMIT = "OffsetCommit"
    FETCH_OFFSETS = "OffsetFetch"


class GroupReaction(Enum):
    """What a member does after an error."""

    RETRY = "send the request again after a pause"
    REBALANCE = "join the next generation"
    REJOIN = "give up its partitions, which others may have, and join as a new member"
    RAISE = "leave it to the user: `poll` raises it, and the next `poll` joins again"
    NONE = "nothing: the caller of the commit gets it, or the log"


_GONE: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: GroupReaction.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: GroupReaction.REJOIN,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupReaction.REJOIN,
}
"""The coordinator does not know the member any more."""
REACTIONS: Final = {
    GroupRequest.JOIN: {**_GONE, ErrorCode.REBALANCE_IN_PROGRESS: GroupReaction.RETRY},
    GroupRequest.SYNC: {**_GONE, ErrorCode.REBALANCE_IN_PROGRESS: GroupReaction.REBALANCE},
    GroupRequest.HEARTBEAT: {**_GONE, ErrorCode.REBALANCE_IN_PROGRESS: GroupReaction.REBALANCE},
    GroupRequest.CONSUMER_HEARTBEAT: {**_GONE, ErrorCode.FENCED_MEMBER_EPOCH: GroupReaction.REJOIN},
    GroupRequest.COMMIT: {
        **_GONE,
        # Another process has the member's instance id: this one has to stop.
        ErrorCode.FENCED_INSTANCE_ID: GroupReaction.RAISE,
    },
    # The heartbeats of the member find out what has happened to it; then its partitions are others.
    GroupRequest.FETCH_OFFSETS: {
        ErrorCode.UNKNOWN_MEMBER_ID: GroupReaction.RETRY,
        ErrorCode.STALE_MEMBER_EPOCH: GroupReaction.RETRY,
        ErrorCode.GROUP_ID_NOT_FOUND: GroupReaction.RETRY,
    },
}
"""By request and error. Of the others retriable ones are retried, and the rest is for the user."""


def reaction_to(request: GroupRequest, error: ClientError) -> GroupReaction:
    """Return what follows from an error of a request."""
    code = error.code if isinstance(error, ErrorResponse) else None
    found = None if code is None else REACTIONS[request].get(code)
    if found is not None:
        return found
    if request is GroupRequest.COMMIT:
        return GroupReaction.NONE
    return GroupReaction.RETRY if error.retriable else GroupReaction.RAISE
