"""State of a consumer group, as its records describe it."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, MutableMapping, Set
from enum import StrEnum
from typing import Final

import attrs

from tidelog.kernel.pace import ITEMS_PER_STEP, run_to_end
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.member import (
    LEAVE_EPOCH,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberProfile,
)
from tidelog.plugins.coordinator.runtime.overlay import NestedOverlay, Overlay

NO_ASSIGNMENT_EPOCH: Final = -1
"""The epoch of the target assignment of a group that has none."""


@attrs.frozen
class ResolvedRegex:
    """The topics that a regular expression matched, and when and for which version of the topics."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroupState(StrEnum):
    """A state of a group; the value is the name that clients get."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@attrs.define
class ConsumerGroup:
    """A group and its members, or a draft of it (see `Draft`).

    Attributes:
        epoch: raised whenever what there is to assign changes
        assignment_epoch: the epoch that the target assignment was computed for
        static_members: the ids of static members by instance id
        targets: the target assignment of each member
        owners: the member that owns a partition, including one that still has to revoke it, by topic
        regexes: the topics that regular expressions matched when they were last resolved
        name_subscribers: how many members subscribe to a topic by its name
        regex_subscribers: how many members subscribe to a regular expression
        assignor_votes: how many members request an assignor
        classic_members: how many members speak the classic protocol
        classic_protocols: how many of these support a protocol of it, by its name
        topics_version: the version of the topic catalogue at the last check; not in any record
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    has_partition_metadata: bool = False
    members: MutableMapping[str, ConsumerGroupMember] = attrs.field(factory=dict[str, ConsumerGroupMember])
    static_members: MutableMapping[str, str] = attrs.field(factory=dict[str, str])
    targets: MutableMapping[str, PartitionsByTopic] = attrs.field(factory=dict[str, PartitionsByTopic])
    owners: MutableMapping[bytes, MutableMapping[int, str]] = attrs.field(
        factory=dict[bytes, MutableMapping[int, str]]
    )
    regexes: MutableMapping[str, ResolvedRegex] = attrs.field(factory=dict[str, ResolvedRegex])
    name_subscribers: MutableMapping[str, int] = attrs.field(factory=dict[str, int])
    regex_subscribers: MutableMapping[str, int] = attrs.field(factory=dict[str, int])
    assignor_votes: MutableMapping[str, int] = attrs.field(factory=dict[str, int])
    classic_members: int = 0
    classic_protocols: MutableMapping[str, int] = attrs.field(factory=dict[str, int])
    removed: bool = False
    topics_version: int | None = None

    def draft(self) -> ConsumerGroup:
        """Return a group that is changed instead of this one, which must not change before `merge`."""
        return attrs.evolve(
            self,
            members=Overlay(self.members),
            static_members=Overlay(self.static_members),
            targets=Overlay(self.targets),
            owners=NestedOverlay(self.owners),
            regexes=Overlay(self.regexes),
            name_subscribers=Overlay(self.name_subscribers),
            regex_subscribers=Overlay(self.regex_subscribers),
            assignor_votes=Overlay(self.assignor_votes),
            classic_protocols=Overlay(self.classic_protocols),
        )

    def merge(self, draft: ConsumerGroup) -> None:
        """Make the changes of a `draft` of this group in it, all at once; the draft cannot be used again."""
        for name in _FIELDS:
            value = getattr(draft, name)
            if isinstance(value, Overlay):
                value.merge()
            else:
                setattr(self, name, value)

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.current.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        """Return the member that holds an instance id, None without one."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def subscribed_names(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the names that a member subscribes to, also by its regular expression as last resolved."""
        names, regex = member.metadata.topic_names, member.metadata.topic_regex
        resolved = self.regexes.get(regex) if regex else None
        return names | resolved.topics if resolved else names

    def all_subscribed_names(self) -> set[str]:
        """Return the names that any member subscribes to."""
        names = set(self.name_subscribers)
        for regex in self.regex_subscribers:
            if resolved := self.regexes.get(regex):
                names |= resolved.topics
        return names

    def subscribes(self, topic: str) -> bool:
        """Return whether any member subscribes to that name."""
        if topic in self.name_subscribers:
            return True
        resolved = map(self.regexes.get, self.regex_subscribers)
        return any(found is not None and topic in found.topics for found in resolved)

    def preferred_assignor(self, default: str, offered: Container[str]) -> str:
        """Return the assignor that most members request, the first by name of several; `default` for none."""
        asked = [name for name in self.assignor_votes if name in offered]
        return min(asked, key=lambda name: (-self.assignor_votes[name], name)) if asked else default

    def set_metadata(self, member_id: str, metadata: MemberProfile) -> None:
        """Add a member, or change what it subscribes to."""
        member = self.members.get(member_id) or ConsumerGroupMember(member_id)
        self._remove_instance(member)
        self._count(metadata, 1)
        self._count(member.metadata, -1)
        self.members[member_id] = attrs.evolve(member, metadata=metadata)
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        run_to_end(self.set_current(member_id, None))
        member = self.members.pop(member_id, None)
        if member is not None:
            self._remove_instance(member)
            self._count(member.metadata, -1)

    def _count(self, metadata: MemberProfile, by: int) -> None:
        """Count what a member asks for, so that no decision about one member has to ask all of them."""
        for name in metadata.topic_names:
            _add(self.name_subscribers, name, by)
        if metadata.topic_regex:
            _add(self.regex_subscribers, metadata.topic_regex, by)
        if metadata.server_assignor is not None:
            _add(self.assignor_votes, metadata.server_assignor, by)
        if metadata.classic is not None:
            self.classic_members += by
            for name in metadata.classic.names:
                _add(self.classic_protocols, name, by)

    def set_current(self, member_id: str, current: CurrentAssignment | None) -> Generator[None, None, None]:
        """Set a member's assignment in steps; the member owns its partitions, also those to revoke.

        None removes its assignment, if it is there.
        """
        member = self.members.get(member_id)
        if member is None:
            if current is None:
                return
            member = ConsumerGroupMember(member_id)
        before, after = member.current, current or CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)
        self.members[member_id] = attrs.evolve(member, current=after)
        topic_ids = {**before.assigned, **before.revoking, **after.assigned, **after.revoking}
        for place, topic_id in enumerate(topic_ids):
            if not after.has_same(topic_id, before):
                self._hand_over(member_id, topic_id, before.owned(topic_id), after.owned(topic_id))
            if not place % ITEMS_PER_STEP:
                yield

    def _remove_instance(self, member: ConsumerGroupMember) -> None:
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _hand_over(self, member_id: str, topic_id: bytes, before: Set[int], after: Set[int]) -> None:
        """Make a member the owner of other partitions of a topic than before."""
        if before == after:
            return
        owners = self.owners.get(topic_id)
        if owners is None:
            owners = self.owners[topic_id] = {}
        for partition in before - after:
            if owners.get(partition) == member_id:
                del owners[partition]
        owners.update(dict.fromkeys(after - before if before else after, member_id))
        if not owners:
            del self.owners[topic_id]

    def only_classic_members(self, without: Iterable[str] = ()) -> bool:
        """Return whether all members but those `without` speak the classic protocol."""
        left_out = [member for member in map(self.members.get, {*without}) if member is not None]
        classic = self.classic_members - sum(member.is_classic for member in left_out)
        return classic == len(self.members) - len(left_out)

    def supports_classic(self, protocols: Iterable[str], without: str) -> bool:
        """Return whether all members of the classic protocol but `without` support one of these protocols."""
        member = self.members.get(without)
        classic = None if member is None else member.metadata.classic
        own = frozenset[str]() if classic is None else classic.names
        others = self.classic_members - (classic is not None)
        return any(self.classic_protocols.get(name, 0) - (name in own) == others for name in protocols)


def _add(counts: MutableMapping[str, int], name: str, by: int) -> None:
    count = counts.get(name, 0) + by
    if count:
        counts[name] = count
    else:
        del counts[name]


_FIELDS: Final = tuple(field.name for field in attrs.fields(ConsumerGroup))
