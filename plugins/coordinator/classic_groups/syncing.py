"""SyncGroup in a classic group. Source: KIP-559 (protocol type and name)."""

from __future__ import annotations

from tidelog.kernel.errors import (
    BrokerError,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import Synced, SyncRequest
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup, Write
from tidelog.plugins.coordinator.classic_groups.member import Member
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.groups.replies import Durable, Reply


def sync(group: ClassicGroup, request: SyncRequest, reply: Reply[Synced], now_ms: int) -> Write | None:
    """Answer a member with its assignment once it is known; the leader's request brings it.

    Raises:
        BrokerError: see `GroupService.sync`.
    """
    member = _check(group, request)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"group {group.group_id!r} begins another generation")
    group.sync_received(member)
    if group.state is GroupState.STABLE:
        reply.set(group.synced(member))
        return None
    again = RebalanceInProgress(f"member {member.member_id!r} asks once more")
    group.members.answer_sync(member, again)
    member.awaiting_sync = reply
    return _assign(group, request, now_ms) if member.member_id == group.members.leader else None


def _check(group: ClassicGroup, request: SyncRequest) -> Member:
    group.check_alive()
    if group.state is GroupState.EMPTY:
        raise UnknownMemberId(f"group {group.group_id!r} has no members")
    member = group.check_member(request.member_id, request.group_instance_id, request.generation)
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} uses {group.protocol_type!r}, {group.protocol_name!r}"
        )
    return member


def _differs(sent: str | None, known: str | None) -> bool:
    return sent is not None and known is not None and sent != known


def _assign(group: ClassicGroup, request: SyncRequest, now_ms: int) -> Write:
    assignments = {assigned.member_id: assigned.assignment for assigned in request.assignments}

    def written(durable: Durable | None) -> None:
        group.stabilize(assignments, durable, now_ms)

    def failed(error: BrokerError) -> None:
        group.clear_assignments(error, now_ms)
        group.prepare_or_complete(now_ms)

    return Write(assignments, written, failed)
