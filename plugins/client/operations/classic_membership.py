"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the requests of a member of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client.cluster import CoordinatorKey
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.coordinators import ask_coordinator_once, forget_if_moved
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import LEAVE_GROUP
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.plugins.protocol_kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.plugins.protocol_kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.plugins.protocol_kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidelog.plugins.client.operations.group_offsets import GroupMetadata
    from tidelog.plugins.client.steps import Session, Steps

MEMBERS_LEAVE_SINCE: Final = 3
"""First version of LeaveGroup with several members; static ones are named there alone."""
_JOIN_LANE: Final = "join"
"""JoinGroup and SyncGroup are answered when others have sent theirs: commits must not wait for that."""


@attrs.frozen
class JoiningMember:
    """What a member sends to join.

    Attributes:
        group: group id
        member_id: empty the first time
        instance_id: of a static member, None for another one
        session_timeout_ms: without a heartbeat for so long the coordinator drops the member
        rebalance_timeout_ms: how long a member may take to join again
        protocols: names of assignors with the member's metadata, the preferred one first
        named: called with the member id of a new member before it has joined, so that it can leave
    """

    group: str
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]
    named: Callable[[str], None]


def join_group(session: Session, joining: JoiningMember) -> Steps[JoinGroupResponse]:
    """Join, and return the response when the next generation begins; it waits for other members.

    Raises:
        ErrorResponse: the coordinator refuses.
        ClientError: there is no coordinator, or it did not answer.
    """
    member_id = joining.member_id
    while True:
        request = JoinGroupRequest(
            group_id=joining.group,
            session_timeout_ms=joining.session_timeout_ms,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=joining.instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in joining.protocols
            ],
        )
        answer: JoinGroupResponse = yield from ask_coordinator_once(
            session,
            CoordinatorKey.group(joining.group),
            request,
            max_delay_s=max(joining.rebalance_timeout_ms, joining.session_timeout_ms) / 1000,
            lane=_JOIN_LANE,
        )
        if ErrorCode.of(answer.error_code) is ErrorCode.MEMBER_ID_REQUIRED and not member_id:
            member_id = answer.member_id
            joining.named(member_id)
            continue
        _raise(session, joining.group, answer.error_code)
        return answer


def sync_group(
    session: Session,
    member: GroupMetadata,
    protocol: str,
    assignments: Mapping[str, bytes],
    wait_ms: int,
) -> Steps[bytes]:
    """Return the member's assignment; a leader sends those of all.

    Raises as `join_group`.
    """
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=assignment)
            for each, assignment in assignments.items()
        ],
    )
    answer: SyncGroupResponse = yield from ask_coordinator_once(
        session, CoordinatorKey.group(member.group_id), request, max_delay_s=wait_ms / 1000, lane=_JOIN_LANE
    )
    _raise(session, member.group_id, answer.error_code)
    return bytes(answer.assignment)


def heartbeat(session: Session, member: GroupMetadata) -> Steps[None]:
    """Tell the coordinator that the member is alive. Raises as `join_group`."""
    request = HeartbeatRequest(
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
    )
    answer: HeartbeatResponse = yield from ask_coordinator_once(
        session, CoordinatorKey.group(member.group_id), request
    )
    _raise(session, member.group_id, answer.error_code)


def leave_group(session: Session, group: str, member_id: str, reason: str) -> Steps[None]:
    """Leave, so that others get the member's partitions at once. Raises as `join_group`."""

    def build(version: int) -> LeaveGroupRequest:
        if version < MEMBERS_LEAVE_SINCE:
            return LeaveGroupRequest(group_id=group, member_id=member_id)
        return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id, reason=reason)])

    answer = yield from ask_coordinator_once(
        session, CoordinatorKey.group(group), ByVersion(LEAVE_GROUP, build)
    )
    _raise(session, group, answer.error_code)


def _raise(session: Session, group: str, error_code: int) -> None:
    if error_code:
        error = ErrorResponse(ErrorCode.of(error_code), f"group {group!r}")
        forget_if_moved(session, CoordinatorKey.group(group), error)
        raise error
