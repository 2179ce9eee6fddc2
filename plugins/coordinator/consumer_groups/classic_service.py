"""Requests of the classic protocol to groups of the consumer protocol."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tidelog.kernel.errors import FencedInstanceId, RebalanceInProgress, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import (
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.consumer_groups import checks, classic_members
from tidelog.plugins.coordinator.consumer_groups.departures import depart
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import Member
from tidelog.plugins.coordinator.consumer_groups.migration import may_downgrade
from tidelog.plugins.coordinator.consumer_groups.registry import Registry
from tidelog.plugins.coordinator.consumer_groups.timers import Timer


class ClassicMembers:
    """Where classic requests go when their group is a consumer group (`group_id in self`)."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __contains__(self, group_id: str) -> bool:
        return self._registry.find(group_id) is not None

    async def make_classic(self, request: JoinRequest) -> bool:
        """Before a join: whether the group is one of the classic protocol now, and the join goes there.

        So it becomes when it is empty, or when the member takes the place of the last static member that
        spoke the consumer protocol.

        Raises:
            BrokerError: the log refused.
        """
        registry = self._registry
        group = registry.get(request.group_id)
        if not group.members:
            result = registry.remove(group)
        else:
            instance_id = request.group_instance_id
            holder = group.static_member(instance_id) if instance_id and not request.member_id else None
            if (
                holder is None
                or holder.is_classic
                or not may_downgrade(group, [holder.member_id], registry.around.settings)
            ):
                return False
            result = registry.carry_out(depart(group, [holder.member_id], registry.context()))
        await registry.committed(request.group_id, result)
        return True

    async def join(self, request: JoinRequest) -> Joined:
        """See `GroupService.join`."""
        registry, group_id = self._registry, request.group_id
        answer, draft = classic_members.join(registry.get(group_id), request, registry.context())
        result = registry.carry_out(draft)
        member = registry.get(group_id).members[answer.member_id]
        registry.timers.stop(group_id, member.member_id, Timer.JOIN)
        registry.timers.follow_session(group_id, member)
        registry.timers.start(group_id, member, Timer.SYNC, request.rebalance_timeout_ms)
        await registry.committed(group_id, result)
        return answer

    def sync(self, request: SyncRequest) -> Synced:
        """See `GroupService.sync`."""
        registry, group_id = self._registry, request.group_id
        group = registry.get(group_id)
        member, _ = classic_members.classic_member(group, request.member_id, request.group_instance_id)
        with self._timing_rejoin(group, member):
            answer = classic_members.sync(group, request, registry.around.topics)
        registry.timers.stop(group_id, member.member_id, Timer.SYNC)
        registry.timers.follow_session(group_id, member)
        return answer

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """See `GroupService.heartbeat`."""
        group = self._registry.get(group_id)
        member, _ = classic_members.classic_member(group, member_id, group_instance_id)
        with self._timing_rejoin(group, member):
            classic_members.check_generation(member, generation)
            self._registry.timers.follow_session(group_id, member)
            classic_members.check_settled(group, member)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """See `GroupService.leave`; members of both protocols can be removed this way."""
        registry = self._registry
        group = registry.get(group_id)
        leaving: list[str] = []
        outcomes: list[LeaveOutcome] = []
        for identity in members:
            try:
                leaving.append(_leaving(group, identity).member_id)
                outcomes.append(LeaveOutcome(identity))
            except (UnknownMemberId, FencedInstanceId) as error:
                outcomes.append(LeaveOutcome(identity, error))
        if leaving:
            result = registry.carry_out(depart(group, dict.fromkeys(leaving), registry.context()))
            await registry.committed(group_id, result)
        return outcomes

    @contextmanager
    def _timing_rejoin(self, group: ConsumerGroup, member: Member) -> Generator[None]:
        """A member that is told to join again has its rebalance timeout for that."""
        try:
            yield
        except RebalanceInProgress:
            self._registry.timers.start_unless_running(
                group.group_id, member, Timer.JOIN, member.metadata.rebalance_timeout_ms
            )
            raise


def _leaving(group: ConsumerGroup, identity: LeavingMember) -> Member:
    """The member that is meant; a static one can be named by its instance id alone."""
    if identity.group_instance_id is None:
        return checks.known_member(group, identity.member_id)
    holder = group.static_member(identity.group_instance_id)
    member_id = identity.member_id or (holder.member_id if holder else "")
    return checks.known_static_member(group, identity.group_instance_id, member_id)
