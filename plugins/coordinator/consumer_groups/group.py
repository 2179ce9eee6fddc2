"""State of a consumer group, as its records describe it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator, Iterable, Set
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
    """A group and its members.

    Attributes:
        epoch: raised whenever what there is to assign changes
        assignment_epoch: the epoch that the target assignment was computed for
        targets: the target assignment of each member
        owners: the member that owns a partition, including one that still has to revoke it, by topic; copies
            of the group share the inner dictionaries
        own_owners: the topics whose inner dictionary no copy shares, so that it may be changed
        topics_version: the version of the topic catalogue at the last check; not in any record
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    has_partition_metadata: bool = False
    members: dict[str, ConsumerGroupMember] = attrs.field(factory=dict[str, ConsumerGroupMember])
    static_members: dict[str, str] = attrs.field(factory=dict[str, str])
    targets: dict[str, PartitionsByTopic] = attrs.field(factory=dict[str, PartitionsByTopic])
    owners: dict[bytes, dict[int, str]] = attrs.field(factory=dict[bytes, dict[int, str]])
    regexes: dict[str, ResolvedRegex] = attrs.field(factory=dict[str, ResolvedRegex])
    removed: bool = False
    own_owners: set[bytes] = attrs.field(factory=set[bytes], eq=False, repr=False)
    topics_version: int | None = None

    def copy(self) -> ConsumerGroup:
        """Return a copy that can be changed independently."""
        self.own_owners.clear()
        return attrs.evolve(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            targets=dict(self.targets),
            owners=dict(self.owners),
            own_owners=set[bytes](),
            regexes=dict(self.regexes),
        )

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

    def regex_subscribers(self) -> Counter[str]:
        """Return how many members subscribe to each regular expression."""
        return Counter(
            member.metadata.topic_regex for member in self.members.values() if member.metadata.topic_regex
        )

    def subscribed_names(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the names that a member subscribes to, also by its regular expression as last resolved."""
        names, regex = member.metadata.topic_names, member.metadata.topic_regex
        resolved = self.regexes.get(regex) if regex else None
        return names | resolved.topics if resolved else names

    def preferred_assignor(self, default: str, offered: Container[str]) -> str:
        """Return the assignor that most members request, the first by name of several; `default` for none."""
        asked = Counter(
            name
            for member in self.members.values()
            if (name := member.metadata.server_assignor) is not None and name in offered
        )
        return min(asked, key=lambda name: (-asked[name], name)) if asked else default

    def set_metadata(self, member_id: str, metadata: MemberProfile) -> None:
        """Add a member, or change what it subscribes to."""
        member = self.members.get(member_id) or ConsumerGroupMember(member_id)
        self._remove_instance(member)
        self.members[member_id] = attrs.evolve(member, metadata=metadata)
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        run_to_end(self.set_current(member_id, None))
        member = self.members.pop(member_id, None)
        if member is not None:
            self._remove_instance(member)

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
        owners = self.owners.get(topic_id, {})
        if topic_id not in self.own_owners:
            owners = dict(owners)
            self.own_owners.add(topic_id)
        for partition in before - after:
            if owners.get(partition) == member_id:
                del owners[partition]
        owners.update(dict.fromkeys(after - before if before else after, member_id))
        if owners:
            self.owners[topic_id] = owners
        else:
            self.owners.pop(topic_id, None)

    def only_classic_members(self, without: Iterable[str] = ()) -> bool:
        """Return whether all members but those `without` speak the classic protocol."""
        left_out = frozenset(without)
        return all(
            member.is_classic for member_id, member in self.members.items() if member_id not in left_out
        )
