"""The groups in memory, and the one way in which they change: written first, then taken over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from tidelog.kernel.clock import Clock
from tidelog.kernel.errors import BrokerError, GroupIdNotFound
from tidelog.kernel.seams.partition import AppendResult
from tidelog.plugins.coordinator.consumer_groups.applying import apply
from tidelog.plugins.coordinator.consumer_groups.changes import CurrentSet, MemberRemoved
from tidelog.plugins.coordinator.consumer_groups.context import Context
from tidelog.plugins.coordinator.consumer_groups.departures import depart
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.migration import removal
from tidelog.plugins.coordinator.consumer_groups.neighbours import ClassicGroups
from tidelog.plugins.coordinator.consumer_groups.recording import to_record
from tidelog.plugins.coordinator.consumer_groups.restoring import from_record
from tidelog.plugins.coordinator.consumer_groups.settings import Settings, TopicCatalogue
from tidelog.plugins.coordinator.consumer_groups.timers import Timer, Timers
from tidelog.plugins.coordinator.deadlines import Deadlines
from tidelog.plugins.coordinator.log import StateLog, StateRecord

_log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""How soon a member that could not be removed, because the log refused, is looked at again."""


@attrs.frozen
class Surroundings:
    """What the groups share with the rest of the coordinator."""

    log: StateLog
    partition_for: Callable[[str], int]
    settings: Settings
    topics: TopicCatalogue
    deadlines: Deadlines
    clock: Clock
    classic: ClassicGroups


class Registry:
    """All groups of the consumer protocol."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self.timers = Timers(surroundings.deadlines, surroundings.settings.session_timeout_ms, self._expired)
        self._groups: dict[str, ConsumerGroup] = {}
        self._read_back: dict[int, dict[str, ConsumerGroup]] = {}

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(tuple(self._groups.values()))

    def find(self, group_id: str) -> ConsumerGroup | None:
        """The group of that id, None without one."""
        return self._groups.get(group_id)

    def get(self, group_id: str) -> ConsumerGroup:
        """The group of that id.

        Raises:
            GroupIdNotFound: there is none, or it is of another kind.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no consumer group {group_id!r}")
        return group

    def check_active(self, group_id: str) -> None:
        """Ask before using what is in memory; raises as `StateLog.check_active`."""
        self.around.log.check_active(self.around.partition_for(group_id))

    def context(self, resolved: Mapping[str, frozenset[str]] | None = None) -> Context:
        """What to decide with, now."""
        return Context(self.around.settings, self.around.topics, self.around.clock(), resolved or {})

    def carry_out(self, draft: Draft, before: Sequence[StateRecord] = ()) -> AppendResult | None:
        """Write what a draft changed, `before` in the same batch, and only then take it over.

        Raises:
            BrokerError: the log refused; everything is as it was.
        """
        group = draft.group
        records = [*before, *(to_record(group.group_id, change) for change in draft.changes)]
        if draft.becomes_classic is not None:
            records += self.around.classic.records(draft.becomes_classic)
        partition = self.around.partition_for(group.group_id)
        result = self.around.log.append(partition, records) if records else None
        self._take_over(draft)
        if draft.becomes_classic is not None:
            self.around.classic.adopt(draft.becomes_classic)
        return result

    def remove(self, group: ConsumerGroup) -> AppendResult | None:
        """Take a group with all that belongs to it out of the log; its offsets stay."""
        draft = Draft(group)
        for change in removal(group):
            draft.apply(change)
        return self.carry_out(draft)

    async def committed(self, group_id: str, result: AppendResult | None) -> None:
        """Wait until what was written may be acknowledged."""
        if result is not None:
            await self.around.log.committed(self.around.partition_for(group_id), result)

    def forget_group(self, group_id: str) -> None:
        """The group's tombstones are in the log."""
        group = self._groups.pop(group_id, None)
        for member_id in group.members if group else ():
            self.timers.stop_all(group_id, member_id)

    def replay(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Take over a record that was read back.

        Raises:
            UnreadableRecord: as `from_record`.
        """
        group_id, change = from_record(key, value)
        group = self._groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self._groups[group_id] = ConsumerGroup(group_id)
            self._read_back.setdefault(partition, {})[group_id] = group
            # Offsets that were read before may have begun a simple group.
            self.around.classic.displace(group_id)
        apply(group, change)
        if group.removed:
            del self._groups[group_id]
            self._read_back.get(partition, {}).pop(group_id, None)

    def settle(self, partition: int) -> Iterator[None]:
        """See `LogReader`: the time of all members in the partition begins, one group a step."""
        for group in self._read_back.pop(partition, {}).values():
            if self._groups.get(group.group_id) is group:
                for member in group.members.values():
                    self.timers.follow_session(group.group_id, member)
                    self.timers.follow_revocation(group.group_id, member)
            yield

    def forget(self, partition: int) -> None:
        """A partition of the log is gone."""
        self._read_back.pop(partition, None)
        for group in self:
            if self.around.partition_for(group.group_id) == partition:
                self.forget_group(group.group_id)

    def _take_over(self, draft: Draft) -> None:
        group = draft.group
        if group.removed:
            self.forget_group(group.group_id)
            return
        self._groups[group.group_id] = group
        for change in draft.changes:
            if isinstance(change, MemberRemoved):
                self.timers.stop_all(group.group_id, change.member_id)
            elif isinstance(change, CurrentSet) and change.member_id in group.members:
                self.timers.follow_revocation(group.group_id, group.members[change.member_id])

    def _expired(self, group_id: str, member_id: str, timer: Timer, epoch: int) -> None:
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if group else None
        if group is None or member is None or (timer is Timer.REVOKE and member.current.epoch != epoch):
            return
        _log.info("group %s: member %s is removed: %s", group_id, member_id, timer.value)
        try:
            self.carry_out(depart(group, [member_id], self.context()))
        except BrokerError as error:
            _log.warning("group %s: member %s cannot be removed yet: %s", group_id, member_id, error)
            self.timers.start(group_id, member, timer, RETRY_MS)
