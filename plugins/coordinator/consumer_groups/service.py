"""Requests of members of the consumer protocol, and what tools ask about their groups."""

from __future__ import annotations

import trio

from tidelog.kernel.errors import InvalidGroupId
from tidelog.kernel.seams.coordination.consumer_groups import (
    ConsumerGroupHeartbeat,
    DescribedConsumerGroup,
    HeartbeatAnswer,
)
from tidelog.plugins.coordinator.consumer_groups import checks, heartbeats
from tidelog.plugins.coordinator.consumer_groups.context import Context
from tidelog.plugins.coordinator.consumer_groups.departures import leave
from tidelog.plugins.coordinator.consumer_groups.describing import describe
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import JOIN_EPOCH
from tidelog.plugins.coordinator.consumer_groups.migration import upgrade
from tidelog.plugins.coordinator.consumer_groups.regexes import (
    compile_regex,
    matching_topics,
    regexes_to_resolve,
)
from tidelog.plugins.coordinator.consumer_groups.registry import Registry

MATCHES_ON_THE_LOOP = 10_000
"""Names to match against expressions, about 10 ms, up to which a thread is not worth its while."""


class ConsumerGroups:
    """A `ConsumerGroupService` over a registry of groups."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def heartbeat(self, request: ConsumerGroupHeartbeat) -> HeartbeatAnswer:
        """See `ConsumerGroupService`."""
        registry = self._registry
        checks.check_request(request, registry.around.settings.assignors)
        registry.check_active(request.group_id)
        if request.member_epoch < JOIN_EPOCH:
            decision = leave(registry.get(request.group_id), request, registry.context())
            return await self._finish(request.group_id, decision)
        context = registry.context(await self._resolve(request))
        registry.check_active(request.group_id)
        group = registry.find(request.group_id)
        if group is None and request.member_epoch == JOIN_EPOCH:
            return await self._found(request, context)
        return await self._finish(
            request.group_id, heartbeats.heartbeat(registry.get(request.group_id), request, context)
        )

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """See `ConsumerGroupService`."""
        if not group_id:
            raise InvalidGroupId("the group id is empty")
        self._registry.check_active(group_id)
        around = self._registry.around
        return describe(self._registry.get(group_id), around.settings, around.topics)

    async def _found(self, request: ConsumerGroupHeartbeat, context: Context) -> HeartbeatAnswer:
        """The first member of a group that is not there, or is a classic one that its members work in."""
        registry = self._registry
        group_id = request.group_id
        classic = registry.around.classic.snapshot(group_id)
        upgraded = Draft(ConsumerGroup(group_id))
        if classic is not None and classic.members:
            upgraded = upgrade(classic, context)
        answer, draft = heartbeats.heartbeat(upgraded.group, request, context)
        if draft is not None:
            draft.changes[:0] = upgraded.changes
        result = registry.carry_out(draft or upgraded, registry.around.classic.tombstones(group_id))
        registry.around.classic.displace(group_id)
        for member in registry.get(group_id).members.values():
            registry.timers.follow_session(group_id, member)
        await registry.committed(group_id, result)
        return answer

    async def _finish(self, group_id: str, decision: heartbeats.Decision) -> HeartbeatAnswer:
        registry = self._registry
        result = registry.carry_out(decision.draft) if decision.draft else None
        group = registry.find(group_id)
        member = group.members.get(decision.answer.member_id) if group else None
        if member is not None:
            registry.timers.follow_session(group_id, member)
        await registry.committed(group_id, result)
        return decision.answer

    async def _resolve(self, request: ConsumerGroupHeartbeat) -> dict[str, frozenset[str]]:
        """Look up what the group's regular expressions mean, as far as that is due.

        Raises:
            InvalidRegularExpression: the request's own cannot be read.
        """
        around = self._registry.around
        group = self._registry.find(request.group_id) or ConsumerGroup(request.group_id)
        wanted = regexes_to_resolve(group, request.topic_regex, self._registry.context())
        if not wanted:
            return {}
        if request.topic_regex in wanted:
            compile_regex(request.topic_regex)
        names = list(around.topics.names())
        if len(names) * len(wanted) <= MATCHES_ON_THE_LOOP:
            return matching_topics(wanted, names)
        return await trio.to_thread.run_sync(matching_topics, wanted, names)
