"""The `ConsumerGroupService`: requests of members of the consumer protocol, and the description of groups.

The broker evaluates subscriptions by regular expression, as Kafka does: one has to match the whole name.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Generator, Mapping
from functools import partial
from typing import TypeVar

import attrs

from tidelog.kernel.errors import (
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.importing import import_in_thread
from tidelog.kernel.pace import run_in_steps, run_to_end
from tidelog.kernel.regex_matching import match_all, takes_too_long
from tidelog.kernel.regexes import compile_regex
from tidelog.kernel.seams.coordination.consumer_groups import (
    ConsumerGroupHeartbeat,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedPartitions,
    HeartbeatAnswer,
)
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import RegisteredClassicGroup
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.draft import Decision, Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.machine import consumer_requests
from tidelog.plugins.coordinator.consumer_groups.member import JOIN_EPOCH, ConsumerGroupMember
from tidelog.plugins.coordinator.consumer_groups.migration import upgrade
from tidelog.plugins.coordinator.consumer_groups.records import read_change
from tidelog.plugins.coordinator.consumer_groups.registered_consumer_group import RegisteredConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.settings import Context, Settings, Shared
from tidelog.plugins.coordinator.consumer_groups.topics import TopicCatalogue
from tidelog.plugins.coordinator.groups.group import MadeOnDemand
from tidelog.plugins.coordinator.runtime.runtime import wait_for

T = TypeVar("T")

_log = logging.getLogger(__name__)

MIN_REFRESH_INTERVAL_MS = 10_000
"""As in Kafka: topics that are created one by one do not have all expressions evaluated each time."""


class ConsumerGroups:
    """A `ConsumerGroupService` over the registry of groups, which also restores them from the log."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._find_any = shared.registry.find

    def heartbeat(self, request: ConsumerGroupHeartbeat) -> HeartbeatAnswer | Awaitable[HeartbeatAnswer]:
        """Join, stay in, or leave a group; the answer is there at once if nothing changes."""
        checks.check_request(request, self._shared.settings.of_broker.assignors)
        group = self._find_active(request.group_id)
        answer = None if group is None else group.unchanged(request)
        return answer or self._heartbeat(group, request)

    async def _heartbeat(
        self, group: RegisteredConsumerGroup | None, request: ConsumerGroupHeartbeat
    ) -> HeartbeatAnswer:
        shared, group_id = self._shared, request.group_id
        if request.member_epoch < JOIN_EPOCH:
            group = _existing(group, f"Group {group_id} not found.")
            context = shared.context(group_id)
            return await group.heartbeat_decided(
                lambda state: consumer_requests.leave(state, request, context)
            )
        state = ConsumerGroup(group_id) if group is None else group.state
        context = shared.context(group_id, await self._resolve(state, request))
        group = self._find_active(group_id)
        if group is None and request.member_epoch == JOIN_EPOCH:
            return await self._create(request, context)
        group = _existing(group, f"Consumer group {group_id} not found.")
        answer = await self._decided(group, request, context)
        return await self._assigned(group, request, answer)

    async def _assigned(
        self, group: RegisteredConsumerGroup, request: ConsumerGroupHeartbeat, answer: HeartbeatAnswer
    ) -> HeartbeatAnswer:
        """Have a large group assigned; return the answer, which waits for that if offloading is disabled."""
        shared, group_id = self._shared, request.group_id
        done = group.assign_if_due()
        if done is None or shared.settings.of(group_id).assignor_offload:
            return answer
        await done.wait()
        again = request._replace(member_id=answer.member_id, member_epoch=answer.member_epoch)
        group = _existing(self._find_active(group_id), f"Consumer group {group_id} not found.")
        return await self._decided(group, again, shared.context(group_id))

    async def _decided(
        self, group: RegisteredConsumerGroup, request: ConsumerGroupHeartbeat, context: Context
    ) -> HeartbeatAnswer:
        def decide(state: ConsumerGroup) -> Generator[None, None, Decision[HeartbeatAnswer]]:
            assigning = group.is_being_assigned
            return consumer_requests.heartbeat(state, request, attrs.evolve(context, assigning=assigning))

        return await group.heartbeat_decided(decide)

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """Return the description of a group."""
        if not group_id:
            raise InvalidGroupId("the group id is empty")
        what = "not found" if self._find_any(group_id) is None else "is not a consumer group"
        group = _existing(self._find_active(group_id), f"Group {group_id} {what}.")
        return _describe(group.state, self._shared.settings.of_broker, self._shared.topics)

    def replay(self, partition: int, key: bytes, value: bytes | None) -> Generator[None, None, None]:
        """Apply a record that was read back, in steps.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker.
        """
        change = read_change(key, value)
        yield
        group_id, registry = change.group_id, self._shared.registry
        group = registry.find(group_id)
        if not isinstance(group, RegisteredConsumerGroup):
            if value is None:
                return
            if group is not None:
                registry.remove(group, _changes_protocol(group_id))
            group = RegisteredConsumerGroup(ConsumerGroup(group_id), partition, self._shared)
            registry.put(group)
        yield from change.apply_in_steps(group.state)
        if group.state.removed:
            registry.remove(group, UnknownMemberId(f"group {group_id!r} was removed"))

    def _find_active(self, group_id: str) -> RegisteredConsumerGroup | None:
        """Return the consumer group of that id, if there is one.

        Raises:
            BrokerError: as `StateLog.check_active`.
        """
        group = self._find_any(group_id)
        if isinstance(group, RegisteredConsumerGroup):
            self._shared.runtime.log.check_active(group.partition)
            return group
        self._shared.runtime.active_partition_for(group_id)
        return None

    async def _create(self, request: ConsumerGroupHeartbeat, context: Context) -> HeartbeatAnswer:
        """Add the first member of the consumer protocol; members of a classic group become its members.

        Raises:
            CoordinatorLoadInProgress: the classic group has changed while that was decided.
        """
        shared, group_id = self._shared, request.group_id
        previous = shared.registry.find(group_id)
        classic = previous.group if isinstance(previous, RegisteredClassicGroup) else None
        before = classic and classic.snapshot()
        upgraded = Draft(ConsumerGroup(group_id))
        run = _run_at_once
        if classic is not None and classic.members:
            run = run_in_steps
            upgraded = await run(upgrade(classic, context))
        # No one else has this group yet, so that it may have the members before their records are in the log.
        state = upgraded.merge()
        answer, draft = await run(consumer_requests.heartbeat(state, request, context))
        draft = draft or Draft(state)
        draft.changes[:0] = upgraded.changes
        group = RegisteredConsumerGroup(state, shared.runtime.partition_for(group_id), shared)
        records = await run(group.records(draft))
        if shared.registry.find(group_id) is not previous or (classic and classic.snapshot()) != before:
            raise CoordinatorLoadInProgress(f"group {group_id!r} changed meanwhile")
        tombstones = () if previous is None else previous.tombstones()
        durable = group.carry_out(draft, [*tombstones, *records])
        if previous is not None:
            shared.registry.remove(previous, _changes_protocol(group_id))
        shared.registry.put(group)
        group.resume()
        await wait_for(durable)
        return await self._assigned(group, request, answer)

    async def _resolve(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeat
    ) -> dict[str, frozenset[str]]:
        """Return the topics that the group's regular expressions match, as far as they are due.

        Raises:
            InvalidRegularExpression: the request's own is malformed, or takes too long.
        """
        shared = self._shared
        wanted = regexes_to_resolve(group, request.topic_regex, shared.context(group.group_id))
        if not wanted:
            return {}
        # The group may change while the expressions are evaluated, and no longer have some of them.
        known = {regex: group.regexes[regex].topics for regex in wanted if regex in group.regexes}
        own = None
        if request.topic_regex in wanted:
            own = await import_in_thread(partial(compile_regex, request.topic_regex))
        # The request's own comes first: the others have topics from the last time.
        others = sorted(wanted - {request.topic_regex})
        found = await match_all([own, *others] if own else others, list(shared.topics.names()))
        if own and own.text not in found:
            raise takes_too_long(own.text)
        for regex in wanted - found.keys():
            _log.warning("group %s: its topics stay: %s", group.group_id, takes_too_long(regex))
        # As in Kafka: also what members subscribe to that other principals have.
        if request.visible_topics is not None:
            visible = await request.visible_topics(frozenset[str]().union(*found.values()))
            found = {regex: topics & visible for regex, topics in found.items()}
        return {**known, **found}


async def _run_at_once(steps: Generator[None, None, T]) -> T:
    """Run steps for a group that is new: another member may create it at the same time."""
    return run_to_end(steps)


def _existing(group: RegisteredConsumerGroup | None, otherwise: str) -> RegisteredConsumerGroup:
    """Return the group; `otherwise` is Kafka's text, which clients compare."""
    if group is None:
        raise GroupIdNotFound(otherwise)
    return group


def _changes_protocol(group_id: str) -> RebalanceInProgress:
    return RebalanceInProgress(f"group {group_id!r} changes its protocol")


def _describe(group: ConsumerGroup, settings: Settings, topics: TopicCatalogue) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.preferred_assignor(settings.default_assignor, settings.assignors),
        members=MadeOnDemand(group.members.values(), lambda member: _describe_member(group, member, topics)),
    )


def _describe_member(
    group: ConsumerGroup, member: ConsumerGroupMember, topics: TopicCatalogue
) -> DescribedConsumer:
    wants = member.metadata
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=wants.instance_id,
        rack_id=wants.rack_id,
        member_epoch=member.current.epoch,
        client_id=wants.client_id,
        client_host=wants.client_host,
        topic_names=sorted(wants.topic_names),
        topic_regex=wants.topic_regex or None,
        assignment=_partitions(member.current.assigned, topics),
        target=_partitions(group.targets.get(member.member_id, {}), topics),
        is_classic=member.is_classic,
    )


def _partitions(
    partitions: Mapping[bytes, Collection[int]], topics: TopicCatalogue
) -> list[DescribedPartitions]:
    described: list[DescribedPartitions] = []
    for topic_id, numbers in partitions.items():
        entry = topics.by_id(topic_id)
        described.append(DescribedPartitions(topic_id, entry.name if entry else "", sorted(numbers)))
    return described


def regexes_to_resolve(group: ConsumerGroup, regex: str | None, context: Context) -> frozenset[str]:
    """Return the expressions of a group that have to be resolved before a heartbeat with `regex`.

    That is one that is new to the group; and all of them when topics have changed since the last time, but
    not too often, or when that was long ago.
    """
    wanted = frozenset((regex,) if regex and regex not in group.regexes else ())
    if not group.regexes:
        return wanted
    age_ms = context.now_ms - min(resolved.timestamp_ms for resolved in group.regexes.values())
    stale = any(resolved.version != context.topics.version for resolved in group.regexes.values())
    if age_ms > context.settings.regex_refresh_interval_ms or (stale and age_ms > MIN_REFRESH_INTERVAL_MS):
        return wanted | group.regexes.keys()
    return wanted
